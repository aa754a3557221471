"""Tensors that are a function of one tensor of codes: 256 values say all of it.

t = quantize(sigmoid(dequantize(c)))
y = quantize(multiply(dequantize(c), dequantize(t)))     ->     y = look_up(c, table)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm_ffi
from scipy.special import erf
from tvm import relax

from tvm_neocpu.core.machine.look_up import ENTRIES
from tvm_neocpu.relay_passes.folding.numpy_ops import NUMPY_OPS
from tvm_neocpu.relay_passes.ir.constants import Array, array_of
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.quantized.encoding import MAX_CODE, Encoding

Pointwise = Callable[..., Array]

CODES = np.arange(ENTRIES, dtype="uint8")


@dataclass(frozen=True)
class CodeFunction:
    """``values[code]`` for each code of ``codes``, a tensor of uint8."""

    codes: relax.Var
    values: Array

    def then(self, function: Callable[[Array], Array]) -> CodeFunction:
        return CodeFunction(self.codes, function(self.values))

    def coded(self, encoding: Encoding) -> CodeFunction | None:
        """Its values as uint8 codes; ``None`` where one of them has none (NaN)."""
        if np.isnan(self.values).any():
            return None
        with np.errstate(over="ignore"):
            places = np.round(self.values / np.float32(encoding.scale)) + encoding.zero
        return self.then(lambda _: np.clip(places, 0, MAX_CODE).astype("uint8"))


def applied(call: relax.Call, operands: list[CodeFunction | Array]) -> CodeFunction | None:
    """What a pointwise call makes of functions of one tensor and of numbers; else ``None``."""
    function = POINTWISE.get(op_name(call))
    found = [each for each in operands if isinstance(each, CodeFunction)]
    if function is None or not found:
        return None
    codes = found[0].codes
    if any(not each.codes.same_as(codes) for each in found):
        return None
    if not _same_shape(call, codes):
        return None
    values = [each.values if isinstance(each, CodeFunction) else each for each in operands]
    with np.errstate(all="ignore"):
        made = function(call.attrs, *values)
    return CodeFunction(codes, np.asarray(made))


def number(expr: relax.Expr) -> Array | None:
    """A constant of one element, or a scalar argument, that broadcasts over 256 values."""
    value = getattr(expr, "value", None)
    if isinstance(value, int | float):
        return np.asarray(value, "float32")
    array = array_of(expr)
    return array.reshape(()) if array is not None and array.size == 1 else None


def _same_shape(call: relax.Call, codes: relax.Var) -> bool:
    shape = call.ty.shape
    return shape is not None and bool(tvm_ffi.structural_equal(shape, codes.ty.shape))


def _of(function: Callable[..., Array]) -> Pointwise:
    return lambda _attrs, *values: function(*values)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Array) -> Array:
    return (x * 0.5 * (1 + erf(x / np.sqrt(2.0)))).astype(x.dtype)


def _gelu_tanh(x: Array) -> Array:
    return x * _sigmoid(np.float32(2 * np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3))


def _softplus(attrs: Any, x: Array) -> Array:
    beta, threshold = np.float32(attrs.beta), np.float32(attrs.threshold)
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


def _as_folded(name: str) -> Pointwise:
    return NUMPY_OPS[f"relax.{name}"]


# By the operator's name; the call's attributes, and its arguments.
POINTWISE: Mapping[str, Pointwise] = MappingProxyType(
    {
        **{
            f"relax.{name}": _as_folded(name)
            for name in (
                "abs", "add", "divide", "exp", "isnan", "log", "maximum", "minimum", "multiply",
                "negative", "nn.relu", "power", "rsqrt", "sigmoid", "sqrt", "subtract", "tanh",
                "where",
            )
        },
        "relax.ceil": _of(np.ceil),
        "relax.clip": _of(np.clip),
        "relax.erf": _of(lambda x: erf(x).astype(x.dtype)),
        "relax.floor": _of(np.floor),
        "relax.greater": _of(np.greater),
        "relax.greater_equal": _of(np.greater_equal),
        "relax.less": _of(np.less),
        "relax.less_equal": _of(np.less_equal),
        "relax.nn.gelu": _of(_gelu),
        "relax.nn.gelu_tanh": _of(_gelu_tanh),
        "relax.nn.leakyrelu": lambda attrs, x: np.where(x > 0, x, x * np.float32(attrs.alpha)),
        "relax.nn.relu6": _of(lambda x: np.clip(x, 0, 6)),
        "relax.nn.silu": _of(lambda x: x * _sigmoid(x)),
        "relax.nn.softplus": _softplus,
        "relax.round": _of(np.round),
        "relax.sign": _of(np.sign),
        "relax.square": _of(np.square),
    }
)  # fmt: skip
