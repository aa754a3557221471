"""The AMX templates' spaces: blocks that fill tiles, sums that fit the unit's registers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.types import BF16_WEIGHTS, FP32, U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import cut_of, geometry_of
from tvm_neocpu.topi.conv2d_amx.space import accepts, bf16_space, integer_space

PLAIN = Cpu("skylake-avx512", AVX512, 1)
CPU = replace(PLAIN, matrix=MatrixUnit((U8S8, BF16_WEIGHTS)))
CONV = ConvWorkload(1, 128, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1), types=U8S8)


@pytest.mark.parametrize(
    "other",
    [
        replace(CONV, types=FP32),
        replace(CONV, in_channels=3),
        replace(CONV, in_channels=67),
        replace(CONV, out_channels=131),
        replace(CONV, out_channels=128, groups=128),
    ],
    ids=["fp32", "image", "no block of words", "no tile of filters", "depthwise"],
)
def test_what_fills_no_tiles_has_other_templates(other: ConvWorkload) -> None:
    assert accepts(CONV, CPU) and not accepts(CONV, PLAIN)
    assert not accepts(other, CPU)


def test_blocks_are_rows_of_words() -> None:
    """Products take 64 bytes at most, 64 channels of 8 bits or 32 of bf16, or several in turn."""
    assert {config.ic_bn for config in integer_space(CONV, CPU)} == {16, 32, 64}
    halves = replace(CONV, types=BF16_WEIGHTS)
    assert {config.ic_bn for config in bf16_space(halves, CPU)} == {8, 16, 32, 64}
    assert {config.oc_bn for config in integer_space(CONV, CPU)} == {16, 32, 64}


@pytest.mark.parametrize(
    ("channels", "written"),
    [
        (24, {(12, 16), (24, 32)}),
        (40, {(40, 48)}),
        (48, {(16, 0), (48, 0), (12, 16), (24, 32)}),
        (3, {(3, 16)}),
        (59, {(59, 64)}),
    ],
)
def test_blocks_that_fill_tiles(channels: int, written: set[tuple[int, int]]) -> None:
    """Three quarters of their filters are real, or there is no other block."""
    found = integer_space(replace(CONV, out_channels=channels), CPU)
    assert {(config.oc_bn, config.oc_lanes) for config in found} == written


def test_passes_leave_no_register_unused() -> None:
    """Unless the whole image is one tile: 6 x 6 pixels are three of them."""

    def passed(conv: ConvWorkload) -> set[tuple[int, int, int]]:
        found = [(each, cut_of(geometry_of(conv, each))) for each in integer_space(conv, CPU)]
        return {(e.reg_m, e.reg_n, e.oc_bn) for e, cut in found if cut.passes > 1}

    assert passed(CONV) >= {(4, 14, 32), (4, 14, 64), (2, 14, 64)}
    assert (3, 14, 32) not in passed(CONV) and (1, 14, 64) not in passed(CONV)
    assert (6, 6, 32) in passed(replace(CONV, height=6, width=6, kernel=(1, 1), padding=(0,) * 4))


def test_rows_are_cut_evenly_though_no_factor_does() -> None:
    """2001 = 3 * 23 * 29: full tiles of 16, 32 and 48 pixels, and 63 in four."""
    row = replace(CONV, height=1, width=2001, kernel=(1, 1), padding=(0, 0, 0, 0))
    assert {config.reg_n for config in integer_space(row, CPU)} >= {16, 32, 48, 63}
    # 17 rows are 18 in pairs or in threes, and 20 in fours: more than 1.15 times as many.
    square = replace(row, height=17, width=17)
    assert {config.reg_m for config in integer_space(square, CPU)} == {1, 2, 3}
    assert all(config.reg_n * config.reg_m <= 64 for config in integer_space(square, CPU))
