"""Shape, Size and Reshape where the shapes are known at run time only.

TVM's importer keeps a shape as a ShapeExpr, which most operators and no output can take, and
reshapes to constants only. Here a shape is an int64 tensor like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


def shape(node: Node) -> relax.Expr:
    """``(d0, d1, ...)`` -> int64 ``(rank,)``, or the part from ``start`` to ``end`` of it."""
    first, last, _ = slice(node.attributes.get("start", 0), node.attributes.get("end")).indices(
        node.rank
    )
    dims = static_shape_of(node.data.ty)
    if dims is not None:
        return relax.const(np.array(dims[first:last], "int64"), "int64")
    whole = _shape_tensor(node)
    if (first, last) == (0, node.rank):
        return whole
    return relax.op.strided_slice(whole, [0], [first], [max(first, last)])


def size(node: Node) -> relax.Expr:
    """``(d0, d1, ...)`` -> int64 ``()``, the number of elements."""
    dims = static_shape_of(node.data.ty)
    if dims is not None:
        return relax.const(math.prod(dims), "int64")
    return relax.op.prod(_shape_tensor(node))


def reshape(node: Node) -> relax.Expr:
    """Reshape of every opset; the new shape may be computed, but its length must be known."""
    keep_zeros = bool(node.attributes.get("allowzero", 0))
    given = node.attributes.get("shape")
    if given is None:
        target = node.required(1)
        length = static_shape_of(target.ty)
        if length is None or len(length) != 1:
            raise UnsupportedOperatorError("the rank of its result is not known at import")
        if length == (0,):
            return relax.op.reshape(node.data, [])
        try:
            values = node.constant(1)
        except UnsupportedOperatorError:
            return _reshaped_at_run_time(node, target, length[0], keep_zeros)
        given = () if values is None else [int(value) for value in values]
    return _reshaped(node, given, keep_zeros)


def _reshaped(node: Node, target: Sequence[int], keep_zeros: bool) -> relax.Expr:
    dims = static_shape_of(node.data.ty)
    if not keep_zeros and dims is not None:
        if any(dim == 0 and place >= len(dims) for place, dim in enumerate(target)):
            raise UnsupportedOperatorError(f"cannot reshape {list(dims)} to {list(target)}")
        target = [dims[place] if dim == 0 else dim for place, dim in enumerate(target)]
    if isinstance(node.data, tvm.ir.GenericConst):
        return relax.const(node.data.value.numpy().reshape(target), node.dtype)
    if dims is not None and 0 in dims and 0 in target and -1 not in target:
        return relax.const(np.zeros(target, node.dtype), node.dtype)
    # Relax reads a 0 in a list as the dimension of the input.
    return relax.op.reshape(
        node.data, relax.ShapeExpr(target) if keep_zeros and 0 in target else list(target)
    )


def _reshaped_at_run_time(
    node: Node, target: relax.Expr, length: int, keep_zeros: bool
) -> relax.Expr:
    def emit(expr: relax.Expr) -> relax.Var:
        return node.emit(expr)

    def whole(number: int) -> relax.Expr:
        return relax.const(number, "int64")

    dims = _shape_tensor(node)
    if not keep_zeros:
        own = emit(relax.op.strided_slice(dims, [0], [0], [min(length, node.rank)]))
        missing = length - min(length, node.rank)
        if missing:
            own = emit(relax.op.concat([own, relax.const(np.ones(missing, "int64"), "int64")]))
        target = emit(relax.op.where(relax.op.equal(target, whole(0)), own, target))
    # A -1 takes what the other extents leave.
    is_free = emit(relax.op.equal(target, whole(-1)))
    others = emit(relax.op.prod(emit(relax.op.where(is_free, whole(1), target))))
    divisor = emit(relax.op.maximum(others, whole(1)))
    rest = emit(relax.op.floor_divide(emit(relax.op.prod(dims)), divisor))
    target = emit(relax.op.where(is_free, rest, target))
    extents = [tirx.Var(f"reshaped_{place}", "int64") for place in range(length)]
    node.builder.match_cast(emit(relax.op.tensor_to_shape(target)), relax.ShapeType(extents))
    return relax.op.reshape(node.data, relax.ShapeExpr(extents))


def _shape_tensor(node: Node) -> relax.Var:
    dims = static_shape_of(node.data.ty)
    if dims is not None:
        return node.emit(relax.const(np.array(dims, "int64"), "int64"))
    if node.data.ty.shape is None:
        extents = [tirx.Var(f"extent_{axis}", "int64") for axis in range(node.rank)]
        node.builder.match_cast(node.data, relax.TensorType(extents, node.dtype))
    else:
        extents = node.data.ty.shape.values
    # Relax's own shape_to_tensor is a Python function at run time.
    return node.builder.emit_te(_vector, *extents, primfunc_name_hint="shape")


def _vector(*values: tirx.Expr) -> te.Tensor:
    def element(at: tirx.Var) -> tirx.Expr:
        chosen = tirx.const(0, "int64")
        for place, value in enumerate(values):
            chosen = tirx.Select(at == place, tirx.Cast("int64", value), chosen)
        return chosen

    return te.compute((len(values),), element, name="shape")
