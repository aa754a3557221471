"""The configuration space of the integer Winograd template: the fp32 one's, where all sums fit."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.space import (
    TILE_LIMIT,
    pays_for_transforms,
    saving_tiles,
    schedules,
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
    temporaries = cpu.dot_of(WORD).temporaries
    return tuple(
        schedules(conv, cpu, allowed_tiles(conv), IntegerWinogradConfig, WORD, temporaries)
    )
