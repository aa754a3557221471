"""Taps that read padding only stand behind a test; no other loop gets one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import samples
from onnx_net import Net, check

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.schedule_function import schedule_as
from tvm_neocpu.topi.tir.tiles.skip_padding import TAPS_KEY, keep_padding, skip_padding

CPU = Cpu("skylake-avx512", AVX512, cores=2)
CONV = ConvWorkload(1, 16, 9, 12, 16, (3, 3), (1, 1), (5,) * 4, (5, 5))


def text_of(conv: ConvWorkload, config: ConvConfig) -> str:
    return str(kernel(conv, config, CPU))


def conditions(text: str) -> list[str]:
    return re.findall(r"if (.*):", text)


def test_rows_and_columns() -> None:
    """A tile has one row of four columns; five of padding are above and at the left."""
    text = text_of(CONV, ConvConfig(16, 16, 4, reg_m=1, unroll_ker=False))
    assert len(conditions(text)) == 2
    assert TAPS_KEY not in text


@pytest.mark.parametrize(
    ("conv", "config"),
    [
        # One row of padding, tiles of two rows.
        (ConvWorkload(1, 16, 8, 8, 16, (3, 3), (1, 1), (1,) * 4), ConvConfig(16, 16, 8, reg_m=2)),
        (ConvWorkload(1, 16, 8, 8, 16, (3, 3)), ConvConfig(16, 16, 6)),
    ],
    ids=["tiles reach the image", "no padding"],
)
def test_no_test_where_all_taps_read_the_image(conv: ConvWorkload, config: ConvConfig) -> None:
    assert conditions(text_of(conv, config)) == []


def test_functions_without_marks_stay_the_same() -> None:
    func = kernel(CONV, ConvConfig(16, 16, 4), CPU)
    assert skip_padding(func, CPU) is func


def test_in_a_group_marks_go_and_nothing_else() -> None:
    config = ConvConfig(16, 16, 4)
    marked = schedule_as(unscheduled(CONV, config), config, CPU)
    assert str(marked).count(TAPS_KEY) == 2
    found = str(keep_padding(marked, CPU))
    assert TAPS_KEY not in found and conditions(found) == []


@pytest.mark.parametrize("group", [1, 2])
def test_numbers(group: int) -> None:
    net = Net((1, 32, 9, 12))
    weight = net.weight(32, 32 // group, 3, 3)
    x = net("Conv", "data", weight, pads=[5, 6, 3, 5], dilations=[5, 6], group=group)
    check(net.model(net("Relu", x)))


@pytest.mark.parametrize("reg_m", [1, 2])
def test_a_kernel_with_tests_computes_the_same(reg_m: int) -> None:
    """Whatever the planner takes for the networks above."""
    conv = replace(CONV, padding=(5, 6, 3, 5), dilation=(5, 6))
    config, cpu = ConvConfig(16, 16, 4, reg_m=reg_m), parse_target("llvm").cpu
    assert conditions(str(kernel(conv, config, cpu)))
    samples.check(conv, config, cpu)
