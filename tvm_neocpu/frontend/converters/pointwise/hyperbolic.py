"""Sinh, Cosh, Atanh, and functions that are computed in float32 where they are float16."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from tvm import relax

from tvm_neocpu.frontend.converters.node import Converter, Node
from tvm_neocpu.frontend.converters.pointwise.elementwise import as_type


def hyperbolic(node: Node) -> relax.Expr:
    """Sinh, Cosh and Atanh; by exponentials, near 0 by their series, for LLVM has none of vectors.

    exp(|x| / 2) does not overflow where the result is finite.
    """
    wide = "float64" if node.dtype == "float64" else "float32"
    x = as_type(node, node.data, wide)
    return as_type(node, node.emit(_HYPERBOLIC[node.op_type](node, x, wide)), node.dtype)


def _cosh(node: Node, x: relax.Expr, dtype: str) -> relax.Expr:
    large, small = _half_powers(node, node.emit(relax.op.abs(x)), dtype)
    return relax.op.add(large, small)


def _sinh(node: Node, x: relax.Expr, dtype: str) -> relax.Expr:
    size = node.emit(relax.op.abs(x))
    large, small = _half_powers(node, size, dtype)
    far = node.emit(relax.op.subtract(large, small))
    # NaN and numbers beyond 1 take the exponentials, with the sign of x.
    signed = node.emit(relax.op.where(_below(node, x, 0.0, dtype), _minus(node, far), far))
    near = _odd_series(node, x, [1 / math.factorial(2 * k + 1) for k in range(9)], dtype)
    return relax.op.where(_below(node, size, 1.0, dtype), near, signed)


def atanh(node: Node, x: relax.Expr, dtype: str) -> relax.Expr:
    """Of ``|x| <= 1``, in float32 or float64."""
    one, half = (_constant(value, dtype) for value in (1.0, 0.5))
    above, below = node.emit(relax.op.add(one, x)), node.emit(relax.op.subtract(one, x))
    ratio = node.emit(relax.op.log(node.emit(relax.op.divide(above, below))))
    far = node.emit(relax.op.multiply(half, ratio))
    near = _odd_series(node, x, [1 / (2 * k + 1) for k in range(16)], dtype)
    return relax.op.where(_below(node, node.emit(relax.op.abs(x)), 0.25, dtype), near, far)


def _half_powers(node: Node, size: relax.Expr, dtype: str) -> tuple[relax.Var, relax.Var]:
    """``exp(size) / 2`` and ``exp(-size) / 2``."""
    half = _constant(0.5, dtype)
    root = node.emit(relax.op.exp(node.emit(relax.op.multiply(size, half))))
    large = node.emit(relax.op.multiply(node.emit(relax.op.multiply(root, half)), root))
    quarter = node.emit(relax.op.divide(_constant(0.25, dtype), large))
    return large, quarter


def _odd_series(node: Node, x: relax.Expr, coefficients: Sequence[float], dtype: str) -> relax.Var:
    """``x * (c0 + c1 * x**2 + ...)``."""
    square = node.emit(relax.op.multiply(x, x))
    total: relax.Expr = _constant(coefficients[-1], dtype)
    for coefficient in reversed(coefficients[:-1]):
        product = node.emit(relax.op.multiply(total, square))
        total = node.emit(relax.op.add(product, _constant(coefficient, dtype)))
    return node.emit(relax.op.multiply(total, x))


def _below(node: Node, x: relax.Expr, limit: float, dtype: str) -> relax.Var:
    return node.emit(relax.op.less(x, _constant(limit, dtype)))


def _minus(node: Node, x: relax.Expr) -> relax.Var:
    return node.emit(relax.op.negative(x))


def _constant(value: float, dtype: str) -> relax.Expr:
    return relax.const(np.array(value, dtype), dtype)


_HYPERBOLIC: Mapping[str, Callable[[Node, relax.Expr, str], relax.Expr]] = MappingProxyType(
    {"Atanh": atanh, "Cosh": _cosh, "Sinh": _sinh}
)


def in_float32(convert: Converter = Node.by_tvm) -> Converter:
    """A converter of a function of one tensor that is computed in float32 where it is float16.

    Code generation has some for no float16. Of others steps in float16 leave little: tanh(2e-4) was
    2.4e-4, and Gelu(-4) was 0 for -1.3e-4.
    """

    def converted(node: Node) -> relax.Expr:
        if node.dtype != "float16":
            return convert(node)
        wide = node.emit(relax.op.astype(node.data, "float32"))
        result = convert(replace(node, inputs=(wide, *node.inputs[1:])))
        return relax.op.astype(node.emit(result), "float16")

    return converted
