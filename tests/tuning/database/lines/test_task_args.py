"""Workloads from AutoTVM's argument lists, ours and those of older versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi import table
from tvm_neocpu.topi.conv2d.operator import CONV2D
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.database.lines.task_args import decode_workload

DIRECT, DEPTHWISE = "conv2d_NCHWc", "depthwise_conv2d_NCHWc"
CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), (2, 1), (0, 1, 2, 3), (1, 2))
GROUPED = replace(CONV, groups=4)
DOUBLED = replace(CONV, out_channels=128, groups=64)
DENSE = DenseWorkload(2, 64, 32)
MOVE = TransformWorkload(1, 64, 56, 56, 0, 16)
ALL = [
    (DIRECT, CONV),
    (DIRECT, GROUPED),
    (DEPTHWISE, DOUBLED),
    ("dense_pack", DENSE),
    ("layout_transform", MOVE),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(("template", "workload"), ALL)
def test_args_and_extras_read_back(template: str, workload: Workload, dtype: str) -> None:
    workload = replace(workload, types=uniform(dtype))
    assert decode_workload(template, workload.args(), workload.extras()) == workload


@pytest.mark.parametrize(
    ("template", "conv"), [(DIRECT, CONV), (DIRECT, GROUPED), (DEPTHWISE, DOUBLED)]
)
def test_groups_follow_from_the_arguments_alone(template: str, conv: ConvWorkload) -> None:
    assert decode_workload(template, conv.args(), {}) == conv


def test_the_first_tasks_had_no_dilation() -> None:
    data, weight, stride, padding, _, *layouts = replace(CONV, dilation=(1, 1)).args()
    args = [data, weight, stride, padding, *layouts]
    assert decode_workload(DIRECT, args, {}) == replace(CONV, dilation=(1, 1))


@pytest.mark.parametrize(
    ("padding", "sides"), [(1, (1, 1, 1, 1)), ([1, 2], (1, 2, 1, 2)), ([1, 2, 3, 4], (1, 2, 3, 4))]
)
def test_padding_of_every_form(padding: Any, sides: tuple[int, ...]) -> None:
    args = CONV.args()
    args[3] = padding
    found = decode_workload(DIRECT, args, {})
    assert isinstance(found, ConvWorkload)
    assert found.padding == sides


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, ["TENSOR", [1, 64, 56, 4], "float32"], "larger than its input"),
        (0, ["TENSOR", [1, 64, 56], "float32"], "tensors of 3 and 4 dimensions"),
        (0, ["TENSOR", [1, 64, 56, 0], "float32"], "0 is not a size"),
        (0, ["TENSOR", [1, 64, 56, 56], "int8"], "mixed types int8, float32 -> float32"),
        (0, "data", "'data' is not a tensor"),
        (1, ["TENSOR", [60, 48, 3, 3], "float32"], "does not fit data"),
        (2, [1, 2, 3], "is not a pair"),
        (2, [0, 1], "0 is not a size"),
        (3, [-1, 0], "-1 is not a size"),
    ],
)
def test_arguments_that_are_no_convolution_say_why(at: int, value: Any, reason: str) -> None:
    args = replace(CONV, padding=(0, 0, 0, 0)).args()
    args[at] = value
    with pytest.raises(LineError, match=reason):
        decode_workload(DIRECT, args, {})


@pytest.mark.parametrize("dtype", ["handle", "custom[posit]32", "", "float0"])
@pytest.mark.parametrize(("template", "workload"), ALL)
def test_a_type_without_a_width_is_refused(template: str, workload: Workload, dtype: str) -> None:
    with pytest.raises(LineError, match="is no element type"):
        decode_workload(template, replace(workload, types=uniform(dtype)).args(), {})


@pytest.mark.parametrize("args", [[1, 64, 56], ["NCHW", "NHWC"], ["NCHW"]])
def test_a_transform_between_other_layouts_is_refused(args: list[Any]) -> None:
    with pytest.raises(LineError):
        decode_workload("layout_transform", [MOVE.args()[0], *args], {})


@pytest.mark.parametrize(("template", "args"), [("conv2d_nchw", []), (DIRECT, None), (DIRECT, [])])
def test_what_is_no_task_of_ours_is_refused(template: str, args: Any) -> None:
    with pytest.raises(LineError):
        decode_workload(template, args, {})


def careless(template: str, args: list[Any], extras: Mapping[str, Any]) -> ConvWorkload:
    """A decoder from outside that expects its own lines only."""
    (_, (batch, channels, height, width), _), *_ = args
    return ConvWorkload(batch, channels, height, width, extras["filters"], (1, 1))


@pytest.mark.parametrize("args", [[], [[1]], [["TENSOR", [1, 2], "x"]], [3], CONV.args()])
def test_a_decoder_that_trips_over_a_line_refuses_it(
    args: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = replace(CONV2D, decode=careless)
    monkeypatch.setitem(table._OPERATORS, CONV2D.name, operator)
    with pytest.raises(LineError, match="conv2d cannot read its arguments"):
        decode_workload(DIRECT, args, {})
