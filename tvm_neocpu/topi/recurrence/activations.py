"""The activations of ONNX's recurrent operators, as arithmetic on one element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm import tirx
from tvm.ir import Expr

from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.recurrence.layer import Activation

Formula = Callable[[Expr, float, float], Expr]


def activated(activation: Activation, x: Expr) -> Expr:
    """The activation of an element, which the formula may read several times."""
    return _FORMULAS[activation.name](x, activation.alpha, activation.beta)


def _of(x: Expr, value: float) -> Expr:
    return tirx.const(value, str(x.ty.dtype))


def _is_ours(x: Expr) -> bool:
    """Whether the formulas that LLVM vectorises have its type."""
    return str(x.ty.dtype) == vector_math.DTYPE


def _sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    if _is_ours(x):
        return vector_math.sigmoid(x)
    return _of(x, 1) / (_of(x, 1) + tirx.exp(_of(x, 0) - x))


def _tanh(x: Expr, alpha: float, beta: float) -> Expr:
    return vector_math.tanh(x) if _is_ours(x) else tirx.tanh(x)


def _relu(x: Expr, alpha: float, beta: float) -> Expr:
    return vector_math.relu(x)


def _affine(x: Expr, alpha: float, beta: float) -> Expr:
    return x * _of(x, alpha) + _of(x, beta)


def _leaky_relu(x: Expr, alpha: float, beta: float) -> Expr:
    return tirx.Select(x < _of(x, 0), x * _of(x, alpha), x)


def _thresholded_relu(x: Expr, alpha: float, beta: float) -> Expr:
    return tirx.Select(x >= _of(x, alpha), x, _of(x, 0))


def _scaled_tanh(x: Expr, alpha: float, beta: float) -> Expr:
    return _of(x, alpha) * _tanh(x * _of(x, beta), 0, 0)


def _hard_sigmoid(x: Expr, alpha: float, beta: float) -> Expr:
    return vector_math.clip(_affine(x, alpha, beta), _of(x, 0), _of(x, 1))


def _elu(x: Expr, alpha: float, beta: float) -> Expr:
    grown = (vector_math.exp(x) if _is_ours(x) else tirx.exp(x)) - _of(x, 1)
    return tirx.Select(x < _of(x, 0), grown * _of(x, alpha), x)


def _softsign(x: Expr, alpha: float, beta: float) -> Expr:
    size = tirx.Select(x < _of(x, 0), _of(x, 0) - x, x)
    return x / (_of(x, 1) + size)


def _softplus(x: Expr, alpha: float, beta: float) -> Expr:
    """``max(x, 0) + log(1 + exp(-|x|))``, which does not overflow."""
    if _is_ours(x):
        return vector_math.softplus(x)
    size = tirx.Select(x < _of(x, 0), x, _of(x, 0) - x)
    return vector_math.relu(x) + tirx.log(_of(x, 1) + tirx.exp(size))


_FORMULAS: Mapping[str, Formula] = MappingProxyType(
    {
        "affine": _affine,
        "elu": _elu,
        "hardsigmoid": _hard_sigmoid,
        "leakyrelu": _leaky_relu,
        "relu": _relu,
        "scaledtanh": _scaled_tanh,
        "sigmoid": _sigmoid,
        "softplus": _softplus,
        "softsign": _softsign,
        "tanh": _tanh,
        "thresholdedrelu": _thresholded_relu,
    }
)
