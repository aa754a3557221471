"""Activations that TVM's importer misreads, or knows for float32 only."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.pointwise.elementwise import as_type
from tvm_neocpu.frontend.converters.pointwise.hyperbolic import atanh
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


def softplus(node: Node) -> relax.Expr:
    """``ln(1 + e^x)``, right for negative ``x`` too, where ``1 + e^x`` rounds to 1."""
    if node.dtype == "float64":
        return _softplus_in_float64(node)
    in_float32 = as_type(node, node.data, "float32")
    return as_type(node, node.emit(relax.op.nn.softplus(in_float32)), node.dtype)


def mish(node: Node) -> relax.Expr:
    """``x tanh(ln(1 + e^x))``, which is ``x n / (n + 2)`` with ``n = e^x (e^x + 2)``.

    Nothing cancels in it, and one exponential takes the place of three functions.
    """
    wide = "float64" if node.dtype == "float64" else "float32"
    x, two = as_type(node, node.data, wide), relax.const(2, wide)
    # From 20 on the fraction is 1. TVM takes the second operand of a minimum with a NaN.
    limited = node.emit(relax.op.minimum(relax.const(20, wide), x))
    power = node.emit(relax.op.exp(limited))
    n = node.emit(relax.op.multiply(power, node.emit(relax.op.add(power, two))))
    fraction = node.emit(relax.op.divide(n, node.emit(relax.op.add(n, two))))
    return as_type(node, node.emit(relax.op.multiply(x, fraction)), node.dtype)


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


def _softplus_in_float64(node: Node) -> relax.Expr:
    """max(x, 0) + ln(1 + s) with s = e^-|x|; the logarithm as 2 atanh(s / (s + 2))."""
    size = node.emit(relax.op.abs(node.data))
    small = node.emit(relax.op.exp(node.emit(relax.op.negative(size))))
    ratio = node.emit(relax.op.divide(small, node.emit(relax.op.add(small, _of(node, 2)))))
    half = node.emit(atanh(node, ratio, node.dtype))
    curve = node.emit(relax.op.multiply(_of(node, 2), half))
    return relax.op.add(node.emit(relax.op.nn.relu(node.data)), curve)


def _of(node: Node, value: float) -> relax.Expr:
    return relax.const(value, node.dtype)
