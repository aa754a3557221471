"""The AMX templates' spaces: blocks that fill tiles, sums that fit the unit's registers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.matrix_unit import MatrixUnit
from tvm_neocpu.core.types import BF16_WEIGHTS, FP32, U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
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
        replace(CONV, out_channels=59),
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
