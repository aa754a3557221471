"""Celu: a smooth ReLU."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node


def celu(node: Node) -> relax.Expr:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    alpha = node.attributes["alpha"]
    if alpha == 0:
        raise UnsupportedOperatorError("alpha is 0")
    zero, one, scale = (relax.const(value, node.dtype) for value in (0, 1, alpha))
    grown = node.emit(relax.op.exp(node.emit(relax.op.divide(node.data, scale))))
    curve = node.emit(relax.op.multiply(scale, node.emit(relax.op.subtract(grown, one))))
    return relax.op.add(
        node.emit(relax.op.maximum(node.data, zero)), node.emit(relax.op.minimum(curve, zero))
    )
