"""Activations beyond ReLU, as PyTorch's exporter writes them."""

from __future__ import annotations

import math

import numpy as np

from .builder import GraphBuilder, Tensor
from .moments import Values

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _logistic(values: Values) -> Values:
    return 1 / (1 + np.exp(-values))


def sigmoid(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    return g.elementwise("Sigmoid", x, name, _logistic)


def hard_sigmoid(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """`min(max(x / 6 + 0.5, 0), 1)`."""
    return g.elementwise("HardSigmoid", x, name, lambda v: np.clip(v / 6 + 0.5, 0, 1), alpha=1 / 6)


def hard_swish(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    return g.elementwise("HardSwish", x, name, lambda v: v * np.clip(v / 6 + 0.5, 0, 1))


def leaky_relu(g: GraphBuilder, x: Tensor, name: str, slope: float = 0.1) -> Tensor:
    return g.elementwise("LeakyRelu", x, name, lambda v: np.maximum(v, slope * v), alpha=slope)


def swish(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """`x * sigmoid(x)`, in two nodes."""
    gate = sigmoid(g, x, f"{name}.sigmoid")
    return g.elementwise("Mul", x, name, lambda v: v * _logistic(v), [gate.name])


def gelu(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """`x / 2 * (1 + erf(x / sqrt(2)))`, in five nodes."""
    root, one, half = (
        g.constant(f"{name}.{key}", value)
        for key, value in (("root", math.sqrt(2)), ("one", 1.0), ("half", 0.5))
    )
    y = g.elementwise("Div", x, f"{name}.scaled", lambda v: v / math.sqrt(2), [root])
    y = g.elementwise("Erf", y, f"{name}.erf", _erf)
    y = g.elementwise("Add", y, f"{name}.add", lambda v: v + 1, [one])
    y = g.elementwise(
        "Mul", x, f"{name}.product", lambda v: v * (1 + _erf(v / math.sqrt(2))), [y.name]
    )
    return g.elementwise("Mul", y, name, lambda v: v / 2, [half])
