"""A workload from the argument list of an AutoTVM task (:meth:`ConvWorkload.args` writes it)."""

from __future__ import annotations

from typing import Any

from tvm_neocpu.core.config import DepthwiseConfig, TransformConfig
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.workload import (
    ConvWorkload,
    DenseWorkload,
    Padding,
    Pair,
    TransformWorkload,
    Workload,
)
from tvm_neocpu.tuning.database.entities import LineError


def decode_workload(template: str, args: Any, groups: Any = None) -> Workload:
    """The workload of a task of this template.

    ``groups`` is known for our own lines; else it follows from the weight's shape. Raises
    LineError for arguments that are none of ours: other layouts, mixed types, impossible shapes.
    """
    if not isinstance(args, list) or len(args) < 2:
        raise LineError("its arguments are not a task's")
    if template == TransformConfig.template:
        return _transform(args)
    shape, dtype = _tensor(args[0])
    weight, weight_dtype = _tensor(args[1])
    # AutoTVM ends a task's arguments with the output's type (we may append a group count).
    out_dtype = next((arg for arg in reversed(args[2:]) if isinstance(arg, str)), dtype)
    if not dtype == weight_dtype == out_dtype:
        raise LineError(f"mixed types {dtype}, {weight_dtype} -> {out_dtype}")
    if len(shape) == len(weight) == 2:
        return _dense(shape, weight, dtype)
    if len(shape) == len(weight) == 4:
        if groups is None:
            groups = _groups(template, shape, weight, args)
        return _conv(shape, weight, args, _count(groups), dtype)
    raise LineError(f"tensors of {len(shape)} and {len(weight)} dimensions")


def _transform(args: list[Any]) -> TransformWorkload:
    shape, dtype = _tensor(args[0])
    if len(args) != 3 or len(shape) != 4:
        raise LineError("it is not a transform of a feature map between two layouts")
    try:
        before, after = (Layout.parse(str(name)).block for name in args[1:])
    except ValueError as error:
        raise LineError(str(error)) from None
    batch, channels, height, width = shape
    return TransformWorkload(batch, channels, height, width, before, after, dtype)


def _dense(shape: list[int], weight: list[int], dtype: str) -> DenseWorkload:
    if shape[1] != weight[1]:
        raise LineError(f"data {shape} does not fit weight {weight}")
    return DenseWorkload(shape[0], shape[1], weight[0], dtype)


def _conv(
    shape: list[int], weight: list[int], args: list[Any], groups: int, dtype: str
) -> ConvWorkload:
    if len(args) < 4:
        raise LineError("it has no stride and padding")
    batch, channels, height, width = shape
    # The first AutoTVM tasks had no dilation: a layout's name stands in its place.
    dilation = args[4] if len(args) > 4 and not isinstance(args[4], str) else 1
    depthwise = 1 < groups == channels
    conv = ConvWorkload(
        batch=batch,
        in_channels=channels,
        height=height,
        width=width,
        out_channels=channels * weight[1] if depthwise else weight[0],
        kernel=(weight[2], weight[3]),
        stride=_pair(args[2]),
        padding=_padding(args[3]),
        dilation=_pair(dilation),
        groups=groups,
        dtype=dtype,
    )
    if conv.autotvm_weight_shape != tuple(weight) or conv.out_channels % groups:
        raise LineError(f"weight {weight} does not fit data {shape} in {groups} groups")
    if min(conv.out_height, conv.out_width) < 1:
        raise LineError("its window is larger than its input")
    return conv


def _groups(template: str, shape: list[int], weight: list[int], args: list[Any]) -> Any:
    if len(args) > 8:
        return args[8]
    if template == DepthwiseConfig.template:
        return shape[1]
    return 1 if weight[1] == shape[1] else shape[1]


def _tensor(arg: Any) -> tuple[list[int], str]:
    if not (isinstance(arg, list) and len(arg) == 3 and arg[0] == "TENSOR"):
        raise LineError(f"{arg!r} is not a tensor")
    _, shape, dtype = arg
    if not (isinstance(shape, list) and isinstance(dtype, str)):
        raise LineError(f"{arg!r} is not a tensor")
    return [_count(size) for size in shape], dtype


def _count(value: Any, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise LineError(f"{value!r} is not a size")
    return value


def _pair(value: Any, least: int = 1) -> Pair:
    """A pair, or one number for both."""
    both = value if isinstance(value, list) else [value, value]
    if len(both) != 2:
        raise LineError(f"{value!r} is not a pair")
    return (_count(both[0], least), _count(both[1], least))


def _padding(value: Any) -> Padding:
    """(top, left, bottom, right), also from (height, width) or one number as AutoTVM allowed."""
    if not (isinstance(value, list) and len(value) == 4):
        top, left = _pair(value, least=0)
        return (top, left, top, left)
    top, left, bottom, right = (_count(side, least=0) for side in value)
    return (top, left, bottom, right)
