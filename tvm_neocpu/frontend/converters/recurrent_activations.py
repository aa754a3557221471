"""The activations that a recurrent node names, with their alpha and beta."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node

Function = Callable[[Node, relax.Expr], relax.Expr]


def functions_of(
    node: Node, defaults: Sequence[str], directions: int
) -> list[tuple[Function, ...]]:
    """The activations of each direction; ``defaults`` are the names where the node has none.

    ``activation_alpha`` and ``activation_beta`` have a value for each activation that takes one, in
    the order of the activations. Raises UnsupportedOperatorError.
    """
    names = [name.lower() for name in node.attributes.get("activations") or defaults * directions]
    count = len(defaults)
    # The schema's default of RNN has two names for one direction too.
    names = names[: count * directions]
    if len(names) < count * directions:
        raise UnsupportedOperatorError(f"activations has {len(names)} names")
    unknown = sorted(set(names) - set(_ACTIVATIONS))
    if unknown:
        raise UnsupportedOperatorError(f"activation {', '.join(unknown)} is not supported")
    alphas, betas = (
        list(node.attributes.get(f"activation_{what}") or ()) for what in ("alpha", "beta")
    )
    functions = [_bound(name, alphas, betas) for name in names]
    if alphas or betas:
        raise UnsupportedOperatorError("more activation_alpha or activation_beta than are taken")
    return [tuple(functions[place * count :][:count]) for place in range(directions)]


def _bound(name: str, alphas: list[float], betas: list[float]) -> Function:
    """The function with its own numbers, taken from the front of the lists."""
    function, *defaults = _ACTIVATIONS[name]
    given = [
        values.pop(0) if values else default
        for values, default in zip((alphas, betas), defaults, strict=False)
    ]
    return partial(function, *given)


def _of(node: Node, value: float) -> relax.Expr:
    return relax.const(value, node.dtype)


def _sigmoid(node: Node, value: relax.Expr) -> relax.Expr:
    return relax.op.sigmoid(value)


def _tanh(node: Node, value: relax.Expr) -> relax.Expr:
    return relax.op.tanh(value)


def _relu(node: Node, value: relax.Expr) -> relax.Expr:
    return relax.op.nn.relu(value)


def _affine(alpha: float, beta: float, node: Node, value: relax.Expr) -> relax.Expr:
    scaled = node.emit(relax.op.multiply(_of(node, alpha), value))
    return relax.op.add(scaled, _of(node, beta))


def _leaky_relu(alpha: float, node: Node, value: relax.Expr) -> relax.Expr:
    return relax.op.nn.leakyrelu(value, alpha)


def _thresholded_relu(alpha: float, node: Node, value: relax.Expr) -> relax.Expr:
    is_above = node.emit(relax.op.greater_equal(value, _of(node, alpha)))
    return relax.op.where(is_above, value, _of(node, 0))


def _scaled_tanh(alpha: float, beta: float, node: Node, value: relax.Expr) -> relax.Expr:
    scaled = node.emit(relax.op.multiply(_of(node, beta), value))
    return relax.op.multiply(_of(node, alpha), node.emit(relax.op.tanh(scaled)))


def _hard_sigmoid(alpha: float, beta: float, node: Node, value: relax.Expr) -> relax.Expr:
    return relax.op.clip(node.emit(_affine(alpha, beta, node, value)), 0, 1)


def _elu(alpha: float, node: Node, value: relax.Expr) -> relax.Expr:
    grown = node.emit(relax.op.subtract(node.emit(relax.op.exp(value)), _of(node, 1)))
    curve = node.emit(relax.op.multiply(_of(node, alpha), grown))
    is_negative = node.emit(relax.op.less(value, _of(node, 0)))
    return relax.op.where(is_negative, curve, value)


def _softsign(node: Node, value: relax.Expr) -> relax.Expr:
    size = node.emit(relax.op.abs(value))
    return relax.op.divide(value, node.emit(relax.op.add(_of(node, 1), size)))


def _softplus(node: Node, value: relax.Expr) -> relax.Expr:
    """``max(x, 0) + log(1 + exp(-|x|))``, which does not overflow."""
    size = node.emit(relax.op.negative(node.emit(relax.op.abs(value))))
    grown = node.emit(relax.op.add(_of(node, 1), node.emit(relax.op.exp(size))))
    return relax.op.add(node.emit(relax.op.nn.relu(value)), node.emit(relax.op.log(grown)))


# By the name in lower case: the function, and the defaults of what it takes of alpha and beta.
_ACTIVATIONS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "affine": (_affine, 1.0, 0.0),
        "elu": (_elu, 1.0),
        "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
        "leakyrelu": (_leaky_relu, 0.01),
        "relu": (_relu,),
        "scaledtanh": (_scaled_tanh, 1.0, 1.0),
        "sigmoid": (_sigmoid,),
        "softplus": (_softplus,),
        "softsign": (_softsign,),
        "tanh": (_tanh,),
        "thresholdedrelu": (_thresholded_relu, 1.0),
    }
)
