"""Operations over windows of pixels: pools, reductions over the image, padding, resizing."""

from __future__ import annotations

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.layouts.flow import (
    BOUNDARY,
    BlockedOperands,
    Flow,
    FlowKind,
    LayoutRule,
    channels_of,
    constant_in,
    follow_first,
    is_feature_map,
)
from tvm_neocpu.relay_passes.layouts.moments import INSTANCE_NORM, SPATIAL_AXES, blocked_norm

POOLS = ("avg_pool2d", "max_pool2d")
REDUCTIONS = ("mean", "max", "min", "sum", "variance")


def _pool_flow(call: relax.Call) -> Flow:
    plain = is_feature_map(call.args[0]) and str(call.attrs.layout) == "NCHW"
    return follow_first(call) if plain else BOUNDARY


def _pool(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    attrs, text = call.attrs, str(operands.layout)
    make = getattr(relax.op.nn, op_name(call).removeprefix("relax.nn."))
    return make(
        operands.new[0],
        pool_size=list(attrs.pool_size),
        strides=list(attrs.strides),
        padding=list(attrs.padding),
        dilation=list(attrs.dilation),
        ceil_mode=bool(attrs.ceil_mode),
        count_include_pad=bool(attrs.count_include_pad),
        layout=text,
        out_layout=text,
    )


def _adaptive_pool(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    wanted, text = call.attrs.output_size, str(operands.layout)
    size = None if wanted is None else [int(extent) for extent in wanted]
    return relax.op.nn.adaptive_avg_pool2d(operands.new[0], size, text, text)


def _reduction_flow(call: relax.Call) -> Flow:
    if not is_feature_map(call.args[0]) or call.attrs.axis is None:
        return BOUNDARY
    axes = tuple(sorted(int(axis) % 4 for axis in call.attrs.axis))
    return follow_first(call) if axes == SPATIAL_AXES else BOUNDARY


def _reduction(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    """H and W keep their places in NCHW[x]c; without ``keepdims`` the one pixel is squeezed."""
    reduce = getattr(relax.op, op_name(call).removeprefix("relax."))
    kept = reduce(operands.new[0], axis=[2, 3], keepdims=True)
    if bool(call.attrs.keepdims):
        return kept
    return relax.op.reshape(operands.emit(kept), static_shape(call))


def _norm_flow(call: relax.Call) -> Flow:
    """A normalisation of each image by itself, with a constant scale and bias for each channel."""
    constant = all(isinstance(operand, GenericConst) for operand in call.args[1:])
    axes = tuple(int(axis) for axis in call.attrs.axes)
    over_image = is_feature_map(call.args[0]) and axes == SPATIAL_AXES
    return follow_first(call) if constant and over_image else BOUNDARY


def _norm(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    """Blocks are normalised as such; scale and bias, one for each channel, come behind that."""
    (data,), emit, layout = operands.new, operands.emit, operands.layout
    whole = emit(blocked_norm(data, float(call.attrs.epsilon)))
    scale, bias = (constant_in(constant, layout) for constant in call.args[1:])
    return relax.op.add(emit(relax.op.multiply(whole, scale)), bias)


def _pad_flow(call: relax.Call) -> Flow:
    """Padding of the batch or the image, with a constant or with pixels of the image.

    That of the batch is a join: a transform belongs in front of it, where images are fewer.
    """
    widths = [int(width) for width in call.attrs.pad_width]
    if not is_feature_map(call.args[0]) or any(widths[2:4]):
        return BOUNDARY
    if any(widths[:2]):
        return Flow(FlowKind.JOIN, (call.args[0],), (channels_of(call.args[0]),))
    return follow_first(call)


def _pad(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    widths = [int(width) for width in call.attrs.pad_width]
    attrs = call.attrs
    return relax.op.nn.pad(operands.new[0], [*widths, 0, 0], str(attrs.pad_mode), attrs.pad_value)


def _resize_flow(call: relax.Call) -> Flow:
    """Every method reads each channel alone; the shape must be known."""
    known = is_feature_map(call.args[0]) and is_feature_map(call)
    return follow_first(call) if known and str(call.attrs.layout) == "NCHW" else BOUNDARY


def _resize(call: relax.Call, operands: BlockedOperands) -> relax.Expr:
    attrs = call.attrs
    return relax.op.image.resize2d(
        operands.new[0],
        call.args[1],
        roi=[float(bound) for bound in attrs.roi],
        layout=str(operands.layout),
        method=attrs.method,
        coordinate_transformation_mode=attrs.coordinate_transformation_mode,
        rounding_method=attrs.rounding_method,
        cubic_alpha=float(attrs.cubic_alpha),
        cubic_exclude=int(attrs.cubic_exclude),
        extrapolation_value=float(attrs.extrapolation_value),
    )


RULES = {
    **{f"relax.nn.{name}": LayoutRule(_pool_flow, _pool) for name in POOLS},
    "relax.nn.adaptive_avg_pool2d": LayoutRule(_pool_flow, _adaptive_pool),
    **{f"relax.{name}": LayoutRule(_reduction_flow, _reduction) for name in REDUCTIONS},
    INSTANCE_NORM: LayoutRule(_norm_flow, _norm),
    "relax.nn.pad": LayoutRule(_pad_flow, _pad),
    "relax.image.resize2d": LayoutRule(_resize_flow, _resize),
}
