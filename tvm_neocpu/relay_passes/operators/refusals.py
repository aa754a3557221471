"""Why a call's operands are not what a template needs, in words for people."""

from __future__ import annotations

from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.types import Types, product_types
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, static_shape


def refused_operands(call: relax.Call) -> str | None:
    """Why no template reads a call of (data, weight); ``None`` where one may.

    Templates need data of a static shape, a constant weight, and types that they multiply.
    """
    data, weight = call.args[:]
    shape = static_shape(data)
    if shape is None:
        return "its shape is not known at compile time"
    if 0 in shape:
        return "its data have no elements"
    if not isinstance(weight, GenericConst):
        return "its weight is not constant"
    if types_of(call) is None:
        types = [dtype_of(each) for each in (data, weight, call)]
        return f"its types are {types[0]} x {types[1]} -> {types[2]}"
    return None


def types_of(call: relax.Call) -> Types | None:
    """The element types of a call of (data, weight); ``None`` for a mixture no template takes."""
    data, weight = call.args[:]
    return product_types(*(dtype_of(each) for each in (data, weight, call)))
