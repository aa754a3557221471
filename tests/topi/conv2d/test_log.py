"""Convolutions read back from the argument lists of tasks, ours and AutoTVM's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.log import DEPTHWISE_TASK, decode
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

DENSE = ConvWorkload(1, 24, 9, 7, 36, (3, 2), (2, 1), (1, 0, 1, 2), (1, 2))
GROUPED = ConvWorkload(1, 24, 8, 8, 36, (3, 3), padding=(1, 1, 1, 1), groups=3)
DEPTHWISE = ConvWorkload(1, 24, 8, 8, 24, (3, 3), padding=(1, 1, 1, 1), groups=24)
MULTIPLIER = replace(DEPTHWISE, out_channels=48)
TASK = "conv2d_NCHWc"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "conv",
    [DENSE, GROUPED, DEPTHWISE, MULTIPLIER],
    ids=["dense", "grouped", "depthwise", "multiplier"],
)
def test_our_own_lines(conv: ConvWorkload, dtype: str) -> None:
    written = replace(conv, types=uniform(dtype))
    args, extras = json.loads(json.dumps([written.args(), written.extras()]))
    task = DEPTHWISE_TASK if conv.is_depthwise else TASK
    assert decode(task, args, extras) == written


@pytest.mark.parametrize("conv", [DENSE, GROUPED, DEPTHWISE, MULTIPLIER])
def test_groups_follow_from_the_arguments_of_others(conv: ConvWorkload) -> None:
    task = DEPTHWISE_TASK if conv.is_depthwise else TASK
    assert decode(task, conv.args(), {}) == conv


def test_the_first_tasks_had_no_dilation_and_one_number_for_both_sides() -> None:
    data, weight, *_ = DEPTHWISE.args()
    old = [data, weight, 1, [1, 1], "NCHW", "NCHW", "float32"]
    assert decode(DEPTHWISE_TASK, old, {}) == DEPTHWISE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({0: ["TENSOR", [1, 3, 9, 7, 8], "float32"]}, "tensors of 5 and 4 dimensions"),
        ({1: ["TENSOR", [36, 24, 3, 2], "int8"]}, "mixed types"),
        ({1: ["TENSOR", [36, 23, 3, 2], "float32"]}, "does not fit data"),
        ({2: [0, 1]}, "0 is not a size"),
        ({3: [1, 2, 3]}, "is not a pair"),
        ({0: ["TENSOR", [1, 24, 1, 1], "float32"], 3: 0}, "window is larger"),
    ],
)
def test_lines_of_others_are_refused(change: dict[int, Any], reason: str) -> None:
    args = [change.get(at, arg) for at, arg in enumerate(DENSE.args())]
    with pytest.raises(LineError, match=reason):
        decode(TASK, args, {})


def test_a_list_without_stride_is_refused() -> None:
    with pytest.raises(LineError, match="no stride and padding"):
        decode(TASK, DENSE.args()[:3], {})
    with pytest.raises(LineError, match="its arguments are not a task's"):
        decode(TASK, DENSE.args()[:1], {})
