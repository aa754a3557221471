"""Why a call's operands are not what a template needs, in words for people."""

from __future__ import annotations

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, static_shape


def refused_operands(call: relax.Call) -> str | None:
    """Why no template reads a call of (data, weight); ``None`` where one may.

    Templates need data of a static shape, a constant weight, and one element type.
    """
    data, weight = call.args
    if static_shape(data) is None:
        return "its shape is not known at compile time"
    if not isinstance(weight, GenericConst):
        return "its weight is not constant"
    types = [dtype_of(each) for each in (data, weight, call)]
    if len(set(types)) > 1:
        return f"its types are {types[0]} x {types[1]} -> {types[2]}"
    return None
