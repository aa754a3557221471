"""Which depthwise convolutions have rows in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import FP32, U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise_rows.implementation import DEPTHWISE_ROWS
from tvm_neocpu.topi.conv2d_depthwise_rows.space import space

CONV = ConvWorkload(1, 16, 8, 8, 16, (3, 3), padding=(1, 1, 1, 1), groups=16, types=U8S8)
X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="


@pytest.mark.parametrize(
    ("conv", "taken"),
    [
        (CONV, True),
        (replace(CONV, stride=(2, 3)), True),
        (replace(CONV, stride=(3, 1)), False),
        (replace(CONV, kernel=(1, 3)), False),
        (replace(CONV, dilation=(2, 1)), False),
        (replace(CONV, dilation=(1, 2)), True),
        (replace(CONV, out_channels=32), False),
        (replace(CONV, types=FP32), False),
    ],
    ids=str,
)
def test_what_it_takes(conv: ConvWorkload, taken: bool) -> None:
    assert DEPTHWISE_ROWS.accepts(conv, parse_target(X86 + "znver3").cpu) == taken


def test_tiles_are_whole_words_high() -> None:
    cpu = parse_target(X86 + "znver3").cpu
    assert {config.reg_m for config in space(CONV, cpu)} == {2, 4}
    assert {config.reg_m for config in space(replace(CONV, stride=(2, 2)), cpu)} == {1, 2}
