"""LpNormalization: vectors of length 1 along an axis."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node


def lp_normalization(node: Node) -> relax.Expr:
    """``x / norm(x)``, of order 1 or 2; a vector of zeros stays one."""
    axis, order = node.attributes["axis"], node.attributes["p"]
    if order not in (1, 2):
        raise UnsupportedOperatorError(f"p is {order}; 1 and 2 are supported")
    data = node.data
    if order == 1:
        norm = node.emit(relax.op.sum(node.emit(relax.op.abs(data)), axis, keepdims=True))
    else:
        squares = node.emit(relax.op.multiply(data, data))
        norm = node.emit(relax.op.sqrt(node.emit(relax.op.sum(squares, axis, keepdims=True))))
    zero, one = relax.const(0, node.dtype), relax.const(1, node.dtype)
    is_zero = node.emit(relax.op.equal(norm, zero))
    return relax.op.divide(data, node.emit(relax.op.where(is_zero, one, norm)))
