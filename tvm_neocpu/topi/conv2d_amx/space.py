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
from tvm_neocpu.topi.conv2d_amx.geometry import (
    Bf16RowsConfig,
    Bf16TilesConfig,
    IntegerRowsConfig,
    IntegerTilesConfig,
    misfit,
    misfit_of_rows,
)
from tvm_neocpu.topi.conv2d_direct.space import chunkings, in_blocks
from tvm_neocpu.topi.conv2d_integer_rows.geometry import has_runs, words_of_row
from tvm_neocpu.topi.math.matrix_tiles import MAX_SUMS

# Rows of a register tile, where it does not hold the whole image.
_HEIGHTS = (1, 2, 3, 4)
# A product takes as long for fewer words of a block as for many.
MIN_WORDS = 4

Made = TypeVar("Made", IntegerTilesConfig, Bf16TilesConfig, IntegerRowsConfig, Bf16RowsConfig)


def accepts(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Layers with blocks of channels that fill tiles, on a CPU with the unit."""
    if cpu.matrix is None or conv.types not in cpu.matrix.types or conv.is_depthwise:
        return False
    return bool(_read(conv)) and bool(_written(conv))


def accepts_image(conv: ConvWorkload, cpu: Cpu) -> bool:
    """First convolutions whose kernel's rows fill tiles' rows, and filters tiles."""
    if cpu.matrix is None or conv.types not in cpu.matrix.types or not has_runs(conv):
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
