"""Tensors that are a function of one tensor of codes: 256 values say all of it.

t = quantize(sigmoid(dequantize(c)))
y = quantize(multiply(dequantize(c), dequantize(t)))     ->     y = look_up(c, table)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import tvm_ffi
from tvm import relax

from tvm_neocpu.core.machine.look_up import ENTRIES
from tvm_neocpu.relay_passes.folding.numpy_ops import NUMPY_OPS, Attrs, Evaluate, elementwise
from tvm_neocpu.relay_passes.ir.constants import Array, array_of
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.quantized.encoding import Encoding, nearest_codes

CODES = np.arange(ENTRIES, dtype="uint8")


@dataclass(frozen=True)
class CodeFunction:
    """``values[code]`` for each code of ``codes``, a tensor of uint8."""

    codes: relax.Var
    values: Array

    def coded(self, encoding: Encoding) -> CodeFunction | None:
        """Its values as uint8 codes; ``None`` where one of them has none (NaN)."""
        if np.isnan(self.values).any():
            return None
        scale, zero = np.float32(encoding.scale), np.int32(encoding.zero)
        return CodeFunction(self.codes, nearest_codes(self.values, scale, zero, "uint8"))


def applied(call: relax.Call, operands: list[CodeFunction | Array]) -> CodeFunction | None:
    """What a call of :data:`POINTWISE` makes of functions of one tensor and of numbers.

    ``None`` for functions of several tensors, or another shape.
    """
    found = [each.codes for each in operands if isinstance(each, CodeFunction)]
    if not found or not _same_shape(call, found[0]):
        return None
    if any(not codes.same_as(found[0]) for codes in found):
        return None
    values = [each.values if isinstance(each, CodeFunction) else each for each in operands]
    with np.errstate(all="ignore"):
        made = POINTWISE[op_name(call)](call.attrs, *values)
    return CodeFunction(found[0], np.asarray(made))


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


def _silu(x: Array) -> Array:
    return x * NUMPY_OPS["relax.sigmoid"](None, x)


def _erf(x: Array) -> Array:
    """By the standard library: importing scipy.special takes a tenth of a second of each build."""
    return np.vectorize(math.erf, otypes=["float64"])(x).astype(x.dtype)


def _gelu(x: Array) -> Array:
    return (x * 0.5 * (1 + _erf(x / np.sqrt(2.0)))).astype(x.dtype)


def _gelu_tanh(x: Array) -> Array:
    twice_u = np.float32(2 * np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return x * NUMPY_OPS["relax.sigmoid"](None, twice_u)


def _softplus(attrs: Attrs, x: Array) -> Array:
    beta, threshold = np.float32(attrs.beta), np.float32(attrs.threshold)
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


# By the operator's name; the call's attributes, and its arguments.
POINTWISE: Mapping[str, Evaluate] = MappingProxyType(
    {
        **{
            f"relax.{name}": NUMPY_OPS[f"relax.{name}"]
            for name in (
                "abs", "add", "divide", "exp", "isnan", "log", "maximum", "minimum", "multiply",
                "negative", "nn.relu", "power", "rsqrt", "sigmoid", "sqrt", "subtract", "tanh",
                "where",
            )
        },
        "relax.ceil": elementwise(np.ceil),
        "relax.clip": elementwise(np.clip),
        "relax.erf": elementwise(_erf),
        "relax.floor": elementwise(np.floor),
        "relax.greater": elementwise(np.greater),
        "relax.greater_equal": elementwise(np.greater_equal),
        "relax.less": elementwise(np.less),
        "relax.less_equal": elementwise(np.less_equal),
        "relax.nn.gelu": elementwise(_gelu),
        "relax.nn.gelu_tanh": elementwise(_gelu_tanh),
        "relax.nn.leakyrelu": lambda attrs, x: np.where(x > 0, x, x * np.float32(attrs.alpha)),
        "relax.nn.relu6": elementwise(lambda x: np.clip(x, 0, 6)),
        "relax.nn.silu": elementwise(_silu),
        "relax.nn.softplus": _softplus,
        "relax.round": elementwise(np.round),
        "relax.sign": elementwise(np.sign),
        "relax.square": elementwise(np.square),
    }
)  # fmt: skip
