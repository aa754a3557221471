"""Relax calls rewritten for blocked operands: the same operator, other layout attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.layouts.channel_moves import channel_move, read_channel_move
from tvm_neocpu.relay_passes.layouts.flow import POOLS, REDUCTIONS
from tvm_neocpu.relay_passes.layouts.slices import blocked_slice


def blocked_conv2d(call: relax.Call, data: relax.Expr, before: Layout, after: Layout) -> relax.Expr:
    """conv2d that reads ``before`` and writes ``after``; the weight stays OIHW."""
    attrs = call.attrs
    return relax.op.nn.conv2d(
        data,
        call.args[1],
        strides=list(attrs.strides),
        padding=list(attrs.padding),
        dilation=list(attrs.dilation),
        groups=attrs.groups,
        data_layout=str(before),
        kernel_layout="OIHW",
        out_layout=str(after),
    )


def blocked_join(
    call: relax.Call, old: Sequence[relax.Expr], new: Sequence[relax.Expr], layout: Layout
) -> relax.Expr:
    """An add, concat, shuffle, slice... of operands that are all stored in ``layout``."""
    if op_name(call) == "relax.strided_slice":
        return blocked_slice(call, new[0], layout)
    move = read_channel_move(call)
    if move is not None:
        return channel_move(new[0], move)
    if op_name(call) == "relax.concat":
        return relax.op.concat(list(new), axis=int(call.attrs.axis) % 4)
    replaced = dict(zip(old, new, strict=True))
    args = [replaced[a] if a in replaced else blocked_constant(a, layout) for a in call.args]
    return relax.Call(call.op, args, call.attrs, call.ty_args)


def blocked_follow(
    call: relax.Call,
    operand: relax.Expr,
    data: relax.Expr,
    layout: Layout,
    emit: Callable[[relax.Expr], relax.Expr],
) -> relax.Expr:
    """An operation that keeps its input's layout; ``data`` is the new ``operand``."""
    name = op_name(call)
    if not layout.is_blocked:
        args = [data if arg.same_as(operand) else arg for arg in call.args]
        return relax.Call(call.op, args, call.attrs, call.ty_args)
    if name in POOLS:
        return _pool(call, data, layout)
    if name in REDUCTIONS:
        return _reduce_space(call, data, emit)
    if name == "relax.image.resize2d":
        return _resize(call, data, layout)
    if name == "relax.nn.pad":
        return _pad(call, data)
    if name == "relax.reshape":
        return relax.op.reshape(data, static_shape(call))
    if name == "relax.strided_slice":
        return blocked_slice(call, data, layout)
    args = [data if arg.same_as(operand) else blocked_constant(arg, layout) for arg in call.args]
    return relax.Call(call.op, args, call.attrs, call.ty_args)


def blocked_constant(constant: relax.Expr, layout: Layout) -> relax.Expr:
    """A scalar, or a constant for each channel as (1, C/x, 1, 1, x) for NCHW[x]c."""
    if not isinstance(constant, GenericConst) or not layout.is_blocked:
        return constant
    values = constant.value.numpy()
    if values.size == 1:
        return relax.const(values.reshape(()), constant.value.dtype)
    blocked = values.reshape(1, values.size // layout.block, 1, 1, layout.block)
    return relax.const(np.ascontiguousarray(blocked), constant.value.dtype)


def _pool(call: relax.Call, data: relax.Expr, layout: Layout) -> relax.Expr:
    attrs, text = call.attrs, str(layout)
    if op_name(call) == "relax.nn.adaptive_avg_pool2d":
        size = None if attrs.output_size is None else [int(extent) for extent in attrs.output_size]
        return relax.op.nn.adaptive_avg_pool2d(data, size, text, text)
    make = getattr(relax.op.nn, op_name(call).removeprefix("relax.nn."))
    return make(
        data,
        pool_size=list(attrs.pool_size),
        strides=list(attrs.strides),
        padding=list(attrs.padding),
        dilation=list(attrs.dilation),
        ceil_mode=bool(attrs.ceil_mode),
        count_include_pad=bool(attrs.count_include_pad),
        layout=text,
        out_layout=text,
    )


def _reduce_space(
    call: relax.Call, data: relax.Expr, emit: Callable[[relax.Expr], relax.Expr]
) -> relax.Expr:
    """H and W are axes 2 and 3 in NCHW[x]c too; without ``keepdims`` a reshape follows."""
    reduce = getattr(relax.op, op_name(call).removeprefix("relax."))
    kept = reduce(data, axis=[2, 3], keepdims=True)
    if bool(call.attrs.keepdims):
        return kept
    return relax.op.reshape(emit(kept), static_shape(call))


def _resize(call: relax.Call, data: relax.Expr, layout: Layout) -> relax.Expr:
    attrs = call.attrs
    return relax.op.image.resize2d(
        data,
        call.args[1],
        roi=[float(bound) for bound in attrs.roi],
        layout=str(layout),
        method=attrs.method,
        coordinate_transformation_mode=attrs.coordinate_transformation_mode,
        rounding_method=attrs.rounding_method,
        cubic_alpha=float(attrs.cubic_alpha),
        cubic_exclude=int(attrs.cubic_exclude),
        extrapolation_value=float(attrs.extrapolation_value),
    )


def _pad(call: relax.Call, data: relax.Expr) -> relax.Expr:
    widths = [int(width) for width in call.attrs.pad_width]
    value = call.attrs.pad_value
    return relax.op.nn.pad(data, [*widths, 0, 0], str(call.attrs.pad_mode), value)
