"""A deformable convolution from the argument list of its task, the inverse of its ``args``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload
from tvm_neocpu.topi.task_args import read_count, read_padding, read_pair, read_tensor

# Data, offset, weight, strides, padding, dilation, offset groups, groups, type; then a mask.
MIN_ARGS = 9


def decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> DeformConvWorkload:
    """The workload of a task. Raises LineError for mixed types and shapes that do not fit."""
    if len(args) not in (MIN_ARGS, MIN_ARGS + 1):
        raise LineError("its arguments are not a deformable convolution's")
    data, offset, weight, *mask = (read_tensor(arg) for arg in (*args[:3], *args[MIN_ARGS:]))
    tensors = [data, weight, offset, *mask]
    if any(len(shape) != 4 for shape, _ in tensors):
        raise LineError("its tensors are not of four dimensions")
    types = {dtype for _, dtype in tensors} | {args[8]}
    if len(types) != 1:
        raise LineError(f"mixed types {', '.join(sorted(map(str, types)))}")
    (batch, channels, height, width), (filters, _, rows, columns) = data[0], weight[0]
    deform = DeformConvWorkload(
        batch,
        channels,
        height,
        width,
        filters,
        (rows, columns),
        stride=read_pair(args[3]),
        padding=read_padding(args[4]),
        dilation=read_pair(args[5]),
        offset_groups=read_count(args[6]),
        groups=read_count(args[7]),
        masked=bool(mask),
        types=uniform(data[1]),
    )
    reason = deform.misfit
    if reason is not None:
        raise LineError(reason)
    for operand, (shape, _) in zip(deform.operands, tensors, strict=True):
        if operand.shape != tuple(shape):
            raise LineError(f"its {operand.name} is {shape} and must be {list(operand.shape)}")
    return deform
