"""Instance and layer normalisation as stages of a plane or row; TVM legalises the rest."""

from __future__ import annotations

import math

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, static_shape
from tvm_neocpu.relay_passes.layouts.moments import is_blocked_norm, moments, normalised
from tvm_neocpu.relay_passes.legalizing.tvms_own import Legalization, as_tvm_does
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE
from tvm_neocpu.topi.image.instance_norm import blocked_instance_norm, instance_norm
from tvm_neocpu.topi.math.layer_norm import layer_norm

LAYER_NORM = "relax.nn.layer_norm"
FLOATS = ("float32", "float64")
# A producer fused into a norm would be computed three times.
ATTRS = {"op_pattern": OUT_ELEMWISE_FUSABLE}
# The busiest core's share of planes over an even one, at most; above it a norm is split.
UNEVEN = 1.25


def instance_norm_legalization(cores: int) -> Legalization:
    """A legalisation of ``relax.nn.instance_norm`` for so many cores."""

    def legalized(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if is_blocked_norm(call) and dtype_of(call) in FLOATS:
            return _blocked(builder, call, cores)
        shape, axes = static_shape(call.args[0]), list(ints(call.attrs.axes))
        plain = shape is not None and len(shape) > 2 and axes == list(range(2, len(shape)))
        if not plain or int(call.attrs.channel_axis) != 1 or dtype_of(call) not in FLOATS:
            return as_tvm_does(builder, call)
        epsilon = float(call.attrs.epsilon)
        return builder.call_te(
            lambda x, scale, bias: instance_norm(x, scale, bias, epsilon),
            *call.args,
            primfunc_name_hint="instance_norm",
            primfunc_attrs=ATTRS,
        )

    return legalized


def _blocked(builder: relax.BlockBuilder, call: relax.Call, cores: int) -> relax.Expr:
    """In one pass over planes, or, where too few of them feed the cores, operation by operation."""
    (data, *_), epsilon = call.args, float(call.attrs.epsilon)
    batch, blocks, *_ = static_shape(data) or ()
    chunks = batch * blocks
    if math.ceil(chunks / cores) * cores > UNEVEN * chunks:
        one = relax.const(1.0, dtype_of(call))
        affine = one, None
        return normalised(builder.emit, data, moments(builder.emit, data), affine, epsilon)
    return builder.call_te(
        lambda x: blocked_instance_norm(x, epsilon),
        data,
        primfunc_name_hint="instance_norm",
        primfunc_attrs=ATTRS,
    )


def legalize_layer_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A legalisation of ``relax.nn.layer_norm``."""
    shape, axes = static_shape(call.args[0]), [int(axis) for axis in call.attrs.axes]
    over_rows = shape is not None and len(shape) > 1 and axes in ([-1], [len(shape) - 1])
    if (
        not over_rows
        or dtype_of(call) not in FLOATS
        or not (call.attrs.center and call.attrs.scale)
    ):
        return as_tvm_does(builder, call)
    epsilon = float(call.attrs.epsilon)
    return builder.call_te(
        lambda x, scale, bias: layer_norm(x, scale, bias, epsilon),
        *call.args,
        primfunc_name_hint="layer_norm",
        primfunc_attrs=ATTRS,
    )
