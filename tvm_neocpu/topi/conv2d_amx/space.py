"""The configuration space of the AMX templates: the direct one's, cut into a few tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import TypeVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import word_elements
from tvm_neocpu.core.machine.matrix_unit import LANES, ROWS
from tvm_neocpu.core.network.layout import factors, largest_factor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import (
    Bf16RowsConfig,
    Bf16TilesConfig,
    IntegerRowsConfig,
    IntegerTilesConfig,
    TilesConfig,
    cut_of,
    geometry_of,
    misfit,
    misfit_of_rows,
)
from tvm_neocpu.topi.conv2d_direct.space import OVERHANG, chunkings, in_blocks, overhang
from tvm_neocpu.topi.conv2d_integer_rows.geometry import has_runs, words_of_row
from tvm_neocpu.topi.math.matrix_tiles import MAX_SUMS

# Rows of a register tile, where it does not hold the whole image.
_HEIGHTS = (1, 2, 3, 4)
# A product takes as long for fewer words of a block as for many.
MIN_WORDS = 4

Made = TypeVar("Made", IntegerTilesConfig, Bf16TilesConfig, IntegerRowsConfig, Bf16RowsConfig)


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Layers with blocks of channels that fill tiles, on a CPU with the unit."""
    if not cpu.multiplies_tiles(conv.types) or conv.is_depthwise:
        return False
    return bool(_read(conv)) and bool(_written(conv))


def accepts_image(conv: ConvWorkload, cpu: Cpu) -> bool:
    """First convolutions whose kernel's rows fill tiles' rows, and filters tiles."""
    if not cpu.multiplies_tiles(conv.types) or not has_runs(conv):
        return False
    return words_of_row(conv, word_elements(conv.types)) <= ROWS and bool(_written(conv))


def integer_space(conv: ConvWorkload, cpu: Cpu) -> tuple[IntegerTilesConfig, ...]:
    """All combinations of channel factors, tile sizes and parallel axes that fit."""
    return tuple(_schedules(conv, cpu, IntegerTilesConfig, _read(conv), misfit))


def bf16_space(conv: ConvWorkload, cpu: Cpu) -> tuple[Bf16TilesConfig, ...]:
    """The same of bf16."""
    return tuple(_schedules(conv, cpu, Bf16TilesConfig, _read(conv), misfit))


def integer_rows_space(conv: ConvWorkload, cpu: Cpu) -> tuple[IntegerRowsConfig, ...]:
    """The same of a plain image."""
    return tuple(_schedules(conv, cpu, IntegerRowsConfig, (0,), misfit_of_rows))


def bf16_rows_space(conv: ConvWorkload, cpu: Cpu) -> tuple[Bf16RowsConfig, ...]:
    """The same of bf16."""
    return tuple(_schedules(conv, cpu, Bf16RowsConfig, (0,), misfit_of_rows))


def _schedules(
    conv: ConvWorkload,
    cpu: Cpu,
    make: Callable[..., Made],
    read: tuple[int, ...],
    misfit: Callable[[ConvWorkload, Made], str | None],
) -> Iterator[Made]:
    blocks = tuple(product(read, _written(conv)))
    for reg_m, reg_n in _tiles(conv):
        # Chunks do not change how a tile is cut.
        fitting = [
            (ic_bn, oc_bn, oc_lanes)
            for ic_bn, (oc_bn, oc_lanes) in blocks
            for config in [make(ic_bn, oc_bn, reg_n, reg_m=reg_m, oc_lanes=oc_lanes)]
            if misfit(conv, config) is None and not _wastes_passes(conv, config)
        ]
        for oh_bn, parallel_oc in chunkings(conv, reg_m, cpu):
            for ic_bn, oc_bn, oc_lanes in fitting:
                yield make(ic_bn, oc_bn, reg_n, True, reg_m, oh_bn, parallel_oc, oc_lanes)


def _wastes_passes(conv: ConvWorkload, config: TilesConfig) -> bool:
    """Whether passes over a block's filters leave registers for sums unused.

    Never so of an image that is one register tile: its passes read each weight once.
    """
    found = cut_of(geometry_of(conv, config))
    whole = config.reg_m == conv.out_height and config.reg_n == conv.out_width
    return found.passes > 1 and found.products < MAX_SUMS and not whole


def _read(conv: ConvWorkload) -> tuple[int, ...]:
    """Blocks of input channels whose words products sum by more than a few."""
    elements = word_elements(conv.types)
    words = {block: math.ceil(block / elements) for block in in_blocks(conv) if block}
    return tuple(block for block in words if largest_factor(words[block], ROWS) >= MIN_WORDS)


def _written(conv: ConvWorkload) -> tuple[tuple[int, int], ...]:
    """(oc_bn, oc_lanes): blocks of output channels that are whole tiles of filters, or fill them.

    24 channels are three quarters of two tiles. If no block is as full, all channels are one block:
    a product takes as long for 3 filters as for 16.
    """
    channels = conv.out_channels // conv.groups
    blocks = [block for block in factors(channels) if block <= MAX_SUMS * LANES]
    whole = [(block, 0) for block in blocks if block % LANES == 0]
    if conv.groups > 1:
        return tuple(whole)
    filled = [(block, math.ceil(block / LANES) * LANES) for block in blocks if block % LANES]
    dense = [(block, lanes) for block, lanes in filled if 4 * block >= 3 * lanes]
    alone = [(block, lanes) for block, lanes in filled if block == channels]
    return tuple(whole + dense or alone)


def _tiles(conv: ConvWorkload) -> list[tuple[int, int]]:
    """(reg_m, reg_n) that hardly overhang the output and fit into the registers for sums.

    Beside the factors of the output's width there are four more widths: those that cut a row evenly
    into the fewest register tiles of at most 16, 32, 48 and 64 pixels. 2001 pixels are 126 of 16.
    """
    most = MAX_SUMS * ROWS
    heights = {*_HEIGHTS, conv.out_height}
    even = {
        math.ceil(conv.out_width / math.ceil(conv.out_width / (count * ROWS)))
        for count in range(1, MAX_SUMS + 1)
    }
    tiles = product(sorted(heights), sorted({*factors(conv.out_width), *even}))
    return [tile for tile in tiles if math.prod(tile) <= most and overhang(conv, *tile) <= OVERHANG]
