"""The configuration space of the AMX templates: the direct one's, cut into a few tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TypeVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import word_elements
from tvm_neocpu.core.machine.matrix_unit import LANES, ROWS
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import Bf16TilesConfig, IntegerTilesConfig, misfit
from tvm_neocpu.topi.conv2d_direct.space import chunkings, in_blocks
from tvm_neocpu.topi.math.matrix_tiles import MAX_SUMS

# Rows of a register tile, where it does not hold the whole image.
_HEIGHTS = (1, 2, 3, 4)
# A product takes as long for fewer words of a block as for many.
MIN_WORDS = 4

Made = TypeVar("Made", IntegerTilesConfig, Bf16TilesConfig)


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Layers with blocks of channels that fill tiles, on a CPU with the unit."""
    if cpu.matrix is None or conv.types not in cpu.matrix.types or conv.is_depthwise:
        return False
    return bool(_read(conv)) and bool(_written(conv))


def integer_space(conv: ConvWorkload, cpu: Cpu) -> tuple[IntegerTilesConfig, ...]:
    """All combinations of channel factors, tile sizes and parallel axes that fit."""
    return tuple(_schedules(conv, cpu, IntegerTilesConfig))


def bf16_space(conv: ConvWorkload, cpu: Cpu) -> tuple[Bf16TilesConfig, ...]:
    """The same of bf16."""
    return tuple(_schedules(conv, cpu, Bf16TilesConfig))


def _schedules(conv: ConvWorkload, cpu: Cpu, make: Callable[..., Made]) -> Iterator[Made]:
    blocks = tuple(product(_read(conv), _written(conv)))
    for reg_m, reg_n in _tiles(conv):
        for oh_bn, parallel_oc in chunkings(conv, reg_m, cpu):
            for ic_bn, oc_bn in blocks:
                config = make(ic_bn, oc_bn, reg_n, True, reg_m, oh_bn, parallel_oc)
                if misfit(conv, config) is None:
                    yield config


def _read(conv: ConvWorkload) -> tuple[int, ...]:
    """Blocks of input channels that are not too few words, nor too many."""
    elements = word_elements(conv.types)
    least, most = MIN_WORDS * elements, ROWS * elements
    return tuple(block for block in in_blocks(conv) if least <= block <= most)


def _written(conv: ConvWorkload) -> tuple[int, ...]:
    """Blocks of output channels that are whole tiles of filters."""
    blocks = factors(conv.out_channels // conv.groups)
    return tuple(block for block in blocks if block % LANES == 0 and block <= MAX_SUMS * LANES)


def _tiles(conv: ConvWorkload) -> list[tuple[int, int]]:
    """(reg_m, reg_n) that divide the output and fit into the registers for sums."""
    most = MAX_SUMS * ROWS
    heights = {*_HEIGHTS, conv.out_height}
    widths = [width for width in factors(conv.out_width) if width <= most]
    rows = [height for height in sorted(heights) if conv.out_height % height == 0]
    return [(height, width) for height, width in product(rows, widths) if height * width <= most]
