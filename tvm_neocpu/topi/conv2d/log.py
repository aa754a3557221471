"""A convolution from the argument list of an AutoTVM task, the inverse of ``ConvWorkload.args``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.task_args import read_count, read_data_and_weight, read_padding, read_pair

# AutoTVM's template for depthwise convolution, whose group count no argument says.
DEPTHWISE_TASK = "depthwise_conv2d_NCHWc"


def decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> ConvWorkload:
    """The workload of a task of this template.

    ``extras["groups"]`` is in our own lines; otherwise the group count follows from the weight's
    shape. Raises LineError for other layouts, mixed types and impossible shapes.
    """
    shape, weight, types = read_data_and_weight(args, rank=4)
    if len(args) < 4:
        raise LineError("it has no stride and padding")
    groups = extras.get("groups")
    groups = read_count(_groups(template, shape, weight, args) if groups is None else groups)
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
        stride=read_pair(args[2]),
        padding=read_padding(args[3]),
        dilation=read_pair(dilation),
        groups=groups,
        types=types,
        pad_value=read_count(extras.get("pad_value", 0), min_value=0),
        weight_bits=read_count(extras.get("weight_bits", ANY_WEIGHTS)),
    )
    if conv.autotvm_weight_shape != tuple(weight) or conv.out_channels % groups:
        raise LineError(f"weight {weight} does not fit data {shape} in {groups} groups")
    if min(conv.out_height, conv.out_width) < 1:
        raise LineError("its window is larger than its input")
    return conv


def _groups(template: str, shape: list[int], weight: list[int], args: list[Any]) -> Any:
    if len(args) > 8:
        return args[8]
    if template == DEPTHWISE_TASK:
        return shape[1]
    return 1 if weight[1] == shape[1] else shape[1]
