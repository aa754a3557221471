"""What a layout transform is, and its one implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.layout_transform import cost, space, template
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.operator import Implementation, Operator
from tvm_neocpu.topi.task_args import read_tensor


def _decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> TransformWorkload:
    if len(args) != 3:
        raise LineError("it is not a transform of a feature map between two layouts")
    shape, dtype = read_tensor(args[0])
    if len(shape) != 4:
        raise LineError("it is not a transform of a feature map between two layouts")
    try:
        before, after = (Layout.parse(str(name)).block for name in args[1:])
    except ValueError as error:
        raise LineError(str(error)) from None
    batch, channels, height, width = shape
    return TransformWorkload(batch, channels, height, width, before, after, uniform(dtype))


def _reference(move: TransformWorkload, data: np.ndarray) -> np.ndarray:
    """The tensor stored in blocks of ``before``, stored in blocks of ``after``."""
    if move.before:
        data = data.transpose(0, 1, 4, 2, 3).reshape(move.in_shape)
    if not move.after:
        return data
    batch, channels, height, width = move.in_shape
    blocks = data.reshape(batch, channels // move.after, move.after, height, width)
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 2))


# Element types of feature maps: floats, and what a quantised network consists of.
MOVED = ("float32", "float64", "uint8", "int8", "int16", "int32")

LAYOUT_TRANSFORM = Operator(
    name="layout_transform",
    workload_type=TransformWorkload,
    decode=_decode,
    reference=_reference,
)

MOVE = Implementation(
    name=TransformConfig.template,
    config_type=TransformConfig,
    guard=space.accepts,
    space=space.space,
    compute=template.compute,
    schedule=template.schedule,
    pack_weight=None,
    packed_shape=None,
    cost=cost.predict_seconds,
    types=tuple(map(uniform, MOVED)),
)
