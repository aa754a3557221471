"""The configuration space of the bf16 Winograd template: tiles that lose little."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import space as fp32
from tvm_neocpu.topi.conv2d_winograd.rounding import growth
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT, tile_limit
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig, tiled_conv
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import WORD

# By how much the noise power of a direct kernel in bf16 may grow: 2.8 times its error.
MAX_GROWTH = 8.0


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """What the fp32 template accepts, in whole words, on a CPU with the instruction."""
    if cpu.bf16 is None or not fp32.pays_for_transforms(conv):
        return False
    return bool(allowed_tiles(conv))


def allowed_tiles(conv: ConvWorkload) -> tuple[int, ...]:
    """Tile sizes whose products may be rounded to bf16, within the user's cap."""
    return tuple(tile for tile in fp32.allowed_tiles(conv) if tile_growth(conv, tile) <= MAX_GROWTH)


def tile_growth(conv: ConvWorkload, tile: int) -> float:
    """The noise power of products of bf16 over that of a direct kernel's."""
    return growth(tiled_conv(conv, tile, conv.reads_plain).matrices)


def noise_growth(conv: ConvWorkload) -> float:
    """The noise power over that of rounded taps, which are rounded before, with the worst tile."""
    return 1 + max((tile_growth(conv, tile) for tile in allowed_tiles(conv)), default=0.0)


def forbids(conv: ConvWorkload, config: Bf16WinogradConfig) -> str | None:
    """Why a tile from a log is not precise enough for the user's cap, ``None`` where it is."""
    if config.tile in allowed_tiles(conv):
        return None
    return f"tiles of {config.tile} are too coarse in bf16 here ({TILE_LIMIT} is {tile_limit()})"


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[Bf16WinogradConfig, ...]:
    """Channel factors, tile sizes, register tiles over the grid of tiles, chunks."""
    return tuple(fp32.schedules(conv, cpu, allowed_tiles(conv), Bf16WinogradConfig, WORD))
