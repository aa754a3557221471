"""Operations over sequences and volumes as operations over the feature maps that stand for them.

Each rule takes the views of a region and a call, and returns the feature map that stands for the
result, not yet emitted; ``None`` where the operation is left as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, op_name, static_shape
from tvm_neocpu.relay_passes.layouts.elementwise import BINARY, UNARY
from tvm_neocpu.relay_passes.layouts.slices import CHANNELS, Range, read_slice, slice_of
from tvm_neocpu.relay_passes.operators.new.quantize import (
    DEQUANTIZE,
    QUANTIZE,
    dequantize,
    quantize,
)
from tvm_neocpu.relay_passes.planar.depth import shifted
from tvm_neocpu.relay_passes.planar.view import SEQUENCE, Views, constant_map, map_axis
from tvm_neocpu.topi.image.depth import Depth

Rule = Callable[[Views, relax.Call], relax.Expr | None]


def _unary(views: Views, call: relax.Call) -> relax.Expr | None:
    """What follows the tensor, such as the bounds of a clip, stays."""
    operand = views.map_of(call.args[0])
    return None if operand is None else relax.Call(call.op, [operand, *call.args[1:]], call.attrs)


def _binary(views: Views, call: relax.Call) -> relax.Expr | None:
    """Of tensors of one shape, or of one tensor and what broadcasts over it: a constant, or one
    value for each channel.
    """
    shape = static_shape(call)
    operands = []
    for argument in call.args:
        resolved, own = views.scope.resolve(argument), static_shape(argument)
        if shape is not None and isinstance(resolved, GenericConst):
            operands.append(constant_map(resolved, len(shape)))
        elif own == shape:
            operands.append(views.map_of(argument))
        elif own is not None and own == (1, *own[1:2], *[1] * (len(shape or ()) - 2)):
            operands.append(views.scope.emit(relax.op.reshape(argument, (*own[:2], 1, 1))))
        else:
            operands.append(None)
    if any(operand is None for operand in operands):
        return None
    return relax.Call(call.op, operands, call.attrs)


def _batch_norm(views: Views, call: relax.Call) -> relax.Expr | None:
    operand = views.map_of(call.args[0])
    if operand is None or int(call.attrs.axis) != 1:
        return None
    return relax.Call(call.op, [operand, *call.args[1:]], call.attrs)


def _instance_norm(views: Views, call: relax.Call) -> relax.Expr | None:
    """Of sequences: a volume's planes are several images."""
    operand, shape = views.map_of(call.args[0]), static_shape(call.args[0])
    if operand is None or shape is None or len(shape) != SEQUENCE or ints(call.attrs.axes) != (2,):
        return None
    return relax.op.nn.instance_norm(operand, *call.args[1:], 1, [2, 3], call.attrs.epsilon)


def _pool(views: Views, call: relax.Call) -> relax.Expr | None:
    """Of sequences, and of volumes: over each image, then over the images that a window reads."""
    operand, shape, attrs = views.map_of(call.args[0]), static_shape(call.args[0]), call.attrs
    after = static_shape(call)
    if operand is None or shape is None or after is None:
        return None
    if str(attrs.layout) not in ("NCW", "NCDHW"):
        return None
    window = [ints(values) for values in (attrs.pool_size, attrs.strides, attrs.dilation)]
    padding = ints(attrs.padding)
    if len(shape) == SEQUENCE:
        rows = [(1, *values) for values in window]
        return _pool_of_images(call, operand, rows, (0, padding[0], 0, padding[1]))
    taps, stride, dilation = (values[0] for values in window)
    depth = Depth(shape[0], shape[2], after[2], taps, stride, dilation, padding[0])
    if not _joins(call, depth):
        return None
    images = [values[1:] for values in window]
    pooled = _pool_of_images(call, operand, images, (*padding[1:3], *padding[4:]))
    if depth.is_each_image:
        return pooled
    return _over_depth(views, call, views.scope.emit(pooled), depth)


def _pool_of_images(
    call: relax.Call,
    images: relax.Expr,
    window: Sequence[tuple[int, ...]],
    padding: tuple[int, ...],
) -> relax.Expr:
    """``window``: size, strides and dilation, of two axes each."""
    make = getattr(relax.op.nn, op_name(call).removeprefix("relax.nn.")[:-2] + "2d")
    pool_size, strides, dilation = window
    return make(
        images,
        pool_size=pool_size,
        strides=strides,
        padding=padding,
        dilation=dilation,
        ceil_mode=bool(call.attrs.ceil_mode),
        count_include_pad=bool(call.attrs.count_include_pad),
    )


def _mean(views: Views, call: relax.Call) -> relax.Expr | None:
    """Over a whole volume: the mean of its images' means. Integers are left as they are."""
    operand, shape = views.map_of(call.args[0]), static_shape(call.args[0])
    if operand is None or shape is None or not dtype_of(call).startswith("float"):
        return None
    axes = sorted(axis % len(shape) for axis in ints(call.attrs.axis or ()))
    if axes != [2, 3, 4] or not call.attrs.keepdims:
        return None
    emit, (batch, channels, depth, *_) = views.scope.emit, shape
    of_images = emit(relax.op.mean(operand, [2, 3], keepdims=True))
    by_volume = emit(relax.op.reshape(of_images, (batch, depth, channels, 1, 1)))
    return relax.op.mean(by_volume, [1])


def _joins(call: relax.Call, depth: Depth) -> bool:
    """Whether pooled images can be joined.

    An average whose window reaches into padding along the depth cannot: it would divide by a wrong
    count. Pools of other types than floats are not joined.
    """
    if not dtype_of(call).startswith("float"):
        return depth.is_each_image
    windows = [depth.window(tap)[2:] for tap in range(depth.taps)]
    return _takes_largest(call) or not any(map(any, windows))


def _takes_largest(call: relax.Call) -> bool:
    return op_name(call).startswith("relax.nn.max_pool")


def _over_depth(views: Views, call: relax.Call, pooled: relax.Expr, depth: Depth) -> relax.Expr:
    """The largest value, or the average, of the pooled images that each output reads."""
    emit, is_largest = views.scope.emit, _takes_largest(call)
    join, outside = (relax.op.maximum, -math.inf) if is_largest else (relax.op.add, 0.0)
    parts = [emit(shifted(views, pooled, depth, tap, outside=outside)) for tap in range(depth.taps)]
    joined = views.scope.combine(join, parts)
    if is_largest:
        return joined
    return relax.op.divide(joined, relax.const(float(depth.taps), dtype_of(call)))


def _pad(views: Views, call: relax.Call) -> relax.Expr | None:
    """Of sequences: along the volumes' depth there is no padding of images."""
    operand, shape = views.map_of(call.args[0]), static_shape(call.args[0])
    if operand is None or shape is None or len(shape) != SEQUENCE:
        return None
    widths = ints(call.attrs.pad_width)
    return relax.op.nn.pad(
        operand, [*widths[:4], 0, 0, *widths[4:]], str(call.attrs.pad_mode), call.attrs.pad_value
    )


def _concat(views: Views, call: relax.Call) -> relax.Expr | None:
    parts = views.scope.definition(call.args[0])
    if not isinstance(parts, relax.Tuple) or call.attrs.axis is None:
        return None
    axis = map_axis(int(call.attrs.axis), call.ty.ndim)
    maps = [views.map_of(part) for part in parts.fields]
    if axis is None or any(part is None for part in maps):
        return None
    return relax.op.concat(maps, axis)


def _slice(views: Views, call: relax.Call) -> relax.Expr | None:
    operand, ranges = views.map_of(call.args[0]), read_slice(call)
    if operand is None or ranges is None:
        return None
    rank = call.ty.ndim
    if any(map_axis(part.axis, rank) is None for part in ranges):
        return None
    moved = [
        Range(map_axis(part.axis, rank) or 0, part.begin, part.end, part.stride) for part in ranges
    ]
    return slice_of(operand, moved)


def _scaled(views: Views, call: relax.Call) -> relax.Expr | None:
    """Quantised and dequantised by one scale, or by one for each channel."""
    data, *scaling = call.args
    axis = int(call.attrs["axis"])
    if any(int(each.ty.ndim) for each in scaling) and axis != CHANNELS:
        return None
    operand = views.map_of(data)
    make = quantize if op_name(call) == QUANTIZE else dequantize
    return None if operand is None else make(operand, *scaling, CHANNELS)


RULES: dict[str, Rule] = {
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys((QUANTIZE, DEQUANTIZE), _scaled),
    "relax.concat": _concat,
    "relax.mean": _mean,
    "relax.nn.avg_pool1d": _pool,
    "relax.nn.avg_pool3d": _pool,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.instance_norm": _instance_norm,
    "relax.nn.max_pool1d": _pool,
    "relax.nn.max_pool3d": _pool,
    "relax.nn.pad": _pad,
    "relax.strided_slice": _slice,
}
