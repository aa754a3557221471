"""Activations that TVM's importer misreads, or knows for float32 only."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


def elu(node: Node) -> relax.Expr:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``."""
    return _elu(node, node.attributes["alpha"])


def selu(node: Node) -> relax.Expr:
    """Elu times ``gamma``."""
    gamma = relax.const(node.attributes["gamma"], node.dtype)
    return relax.op.multiply(gamma, node.emit(_elu(node, node.attributes["alpha"])))


def thresholded_relu(node: Node) -> relax.Expr:
    """``x`` where it is above ``alpha``, else 0."""
    is_above = node.emit(relax.op.greater(node.data, _of(node, node.attributes["alpha"])))
    return relax.op.where(is_above, node.data, _of(node, 0))


def prelu(node: Node) -> relax.Expr:
    """``x`` where it is positive, else ``slope * x``; the slope broadcasts to ``x``.

    As max(x, 0) + slope * min(x, 0): these follow a convolution's layout and fuse into it. Below
    opset 7 a slope of several elements has one for each channel.
    """
    dims = static_shape_of(node.required(1).ty)
    if dims is None:
        raise UnsupportedOperatorError("the shape of its slope is not known at import")
    slope = node.required(1)
    if node.opset < 7 and len(dims) == 1:
        dims = (*dims, *(1 for _ in range(node.rank - 2)))
        slope = node.emit(relax.op.reshape(slope, dims))
    if len(dims) > node.rank:
        raise UnsupportedOperatorError(f"a slope {list(dims)} does not broadcast to its input")
    # TVM takes the second operand of a minimum with a NaN, which must pass.
    below = node.emit(relax.op.minimum(_of(node, 0), node.data))
    above = node.emit(relax.op.maximum(node.data, _of(node, 0)))
    return relax.op.add(above, node.emit(relax.op.multiply(below, slope)))


def _elu(node: Node, alpha: float) -> relax.Expr:
    # 1 - exp(x) is negative where x is positive, so that one of the two terms is always 0.
    rest = node.emit(relax.op.subtract(_of(node, 1), node.emit(relax.op.exp(node.data))))
    curve = relax.op.multiply(_of(node, -alpha), node.emit(relax.op.nn.relu(rest)))
    return relax.op.add(node.emit(curve), node.emit(relax.op.nn.relu(node.data)))


def _of(node: Node, value: float) -> relax.Expr:
    return relax.const(value, node.dtype)
