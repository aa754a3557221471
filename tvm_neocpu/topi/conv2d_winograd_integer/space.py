"""The configuration space of the integer Winograd template: the fp32 one's, where all sums fit."""

from __future__ import annotations

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.layout import factors
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.space import (
    MIN_BLOCK,
    TILE_LIMIT,
    chunkings,
    pays_for_transforms,
    register_tiles,
    saving_tiles,
    tile_limit,
)
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import (
    WORD,
    IntegerWinogradConfig,
    overflow,
)


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """What the fp32 template accepts, where no sum can overflow."""
    return pays_for_transforms(conv) and bool(allowed_tiles(conv))


def allowed_tiles(conv: ConvWorkload) -> tuple[int, ...]:
    """Tile sizes that save products and whose sums fit; all are exact, so that no cap applies."""
    if not tile_limit():
        return ()
    return tuple(
        tile for tile in saving_tiles(conv) if overflow(conv, tile, conv.reads_plain) is None
    )


def forbids(conv: ConvWorkload, config: IntegerWinogradConfig) -> str | None:
    """Why the user does not want a config from a log, ``None`` where it is welcome."""
    return None if tile_limit() else f"{TILE_LIMIT} is 0"


def space(conv: ConvWorkload, cpu: Cpu) -> tuple[IntegerWinogradConfig, ...]:
    """Channel factors, tile sizes, register tiles over the grid of tiles, chunks."""
    unit, temporaries = cpu.unit(conv.types.accumulator), cpu.dot_of(WORD).temporaries
    blocks_in, blocks_out = (
        [f for f in factors(channels) if MIN_BLOCK <= f <= 4 * unit.lanes]
        for channels in (conv.in_channels, conv.out_channels)
    )
    if conv.reads_plain:
        blocks_in = [0]
    return tuple(
        IntegerWinogradConfig(ic_bn, oc_bn, tile, reg_n, reg_m, th_bn, parallel_oc)
        for tile in allowed_tiles(conv)
        for oc_bn in blocks_out
        for reg_m, reg_n in register_tiles(conv, tile, cpu)
        if unit.holds_tile(reg_m * reg_n, unit.registers_of(oc_bn), 1 + temporaries)
        for th_bn, parallel_oc in chunkings(conv, tile, reg_m)
        for ic_bn in blocks_in
        if ic_bn % WORD == 0
    )
