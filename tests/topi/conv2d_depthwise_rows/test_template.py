"""Depthwise products of two rows: phases of the packed weight, and what a step is in code."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import tvm

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise_rows.cost import predict_seconds
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import RowsConfig
from tvm_neocpu.topi.conv2d_depthwise_rows.space import space
from tvm_neocpu.topi.conv2d_depthwise_rows.template import pack_weight, packed_shape
from tvm_neocpu.topi.kernel import kernel

CONV = ConvWorkload(1, 16, 8, 8, 16, (3, 3), padding=(1, 1, 1, 1), groups=16, types=U8S8)
CONFIG = RowsConfig(ic_bn=16, oc_bn=16, reg_n=4, reg_m=2, reg_c=8)
X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu="


def pairs(packed: np.ndarray, phase: int, channel: int) -> list[list[int]]:
    """(row 2 r, row 2 r + 1) of the kernel's first column."""
    words = np.ascontiguousarray(packed[0, phase, :, 0, 0, channel])
    return words.view("int16").reshape(-1, 2).tolist()


def test_phases_shift_the_kernel_by_a_row() -> None:
    weight = np.zeros(CONV.weight_shape, "int8")
    weight[5, 0, :, 0] = 1, -2, 3
    packed = pack_weight(weight, CONV, CONFIG)
    assert packed.shape == packed_shape(CONV, CONFIG) == (1, 2, 2, 3, 1, 16)
    assert pairs(packed, 0, 5) == [[1, -2], [3, 0]]
    assert pairs(packed, 1, 5) == [[0, 1], [-2, 3]]


@pytest.mark.parametrize(
    ("cpu", "instruction"),
    [("znver3", "vpmaddwd"), ("znver4", "vpdpwssd"), ("skylake-avx512", "vpmaddwd")],
)
def test_a_step_multiplies_two_rows(cpu: str, instruction: str) -> None:
    """12 products for each pair of pixels, where the kernel has 18 taps.

    Of a row of more tiles than LLVM unrolls.
    """
    target = parse_target(X86 + cpu)
    config = replace(CONFIG, reg_c=0, oc_bn=target.cpu.lanes("int32"), ic_bn=16)
    config = replace(config, ic_bn=config.oc_bn)
    built = tvm.compile(kernel(replace(CONV, width=64), config, target.cpu), target=target.target)
    found = len(re.findall(rf"\b{instruction}\s", built.mod.inspect_source("asm")))
    assert found == 12 * config.reg_n


@pytest.mark.parametrize(
    ("cpu", "stored"),
    [
        (X86 + "cascadelake", r"vmov\S+\s+%zmm\d+, .*%rsp"),
        (X86 + "znver4", r"vmov\S+\s+%zmm\d+, .*%rsp"),
        (ARM + "neoverse-n1", r"st[rp]\s+q\d+.*sp\b"),
    ],
)
def test_32_registers_hold_the_tile_that_the_model_takes(cpu: str, stored: str) -> None:
    """28 accumulators and the words that taps share do not: some 90, 20 and 38 stores."""
    target = parse_target(cpu)
    one = target.cpu.with_cores(1)
    conv = replace(CONV, in_channels=144, out_channels=144, groups=144, height=56, width=56)
    config = min(space(conv, one), key=lambda config: predict_seconds(conv, config, one))
    assembly = tvm.compile(kernel(conv, config, one), target=target.target).mod.inspect_source(
        "asm"
    )
    assert config.reg_m * config.reg_n > 4
    assert len(re.findall(stored, assembly)) <= 16
