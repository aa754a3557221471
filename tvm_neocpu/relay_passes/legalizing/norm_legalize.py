"""Instance and layer normalisation as stages of a plane or row; TVM legalises the rest."""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE
from tvm_neocpu.topi.image import instance_norm
from tvm_neocpu.topi.math.layer_norm import layer_norm

INSTANCE_NORM, LAYER_NORM = "relax.nn.instance_norm", "relax.nn.layer_norm"
FLOATS = ("float32", "float64")


def legalize_instance_norm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A legalisation of ``relax.nn.instance_norm``."""
    shape, axes = static_shape(call.args[0]), [int(axis) for axis in call.attrs.axes]
    plain = shape is not None and len(shape) > 2 and axes == list(range(2, len(shape)))
    if not plain or int(call.attrs.channel_axis) != 1 or dtype_of(call) not in FLOATS:
        return tvm.ir.Op.get(op_name(call)).get_attr("FLegalize")(builder, call)
    epsilon = float(call.attrs.epsilon)
    return builder.call_te(
        lambda x, scale, bias: instance_norm.instance_norm(x, scale, bias, epsilon),
        *call.args,
        primfunc_name_hint="instance_norm",
        # A producer fused into it would be computed three times.
        primfunc_attrs={"op_pattern": OUT_ELEMWISE_FUSABLE},
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
        return tvm.ir.Op.get(op_name(call)).get_attr("FLegalize")(builder, call)
    epsilon = float(call.attrs.epsilon)
    return builder.call_te(
        lambda x, scale, bias: layer_norm(x, scale, bias, epsilon),
        *call.args,
        primfunc_name_hint="layer_norm",
        primfunc_attrs={"op_pattern": OUT_ELEMWISE_FUSABLE},
    )
