"""Calls that quantise and dequantise by constants."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from tvm import relax

from tvm_neocpu.relay_passes.operators.new.quantize import dequantize, quantize


def const(values: ArrayLike, dtype: str = "float32") -> relax.Constant:
    return relax.const(np.asarray(values, dtype))


def real(
    x: relax.Expr, scale: ArrayLike, zero: ArrayLike, dtype: str = "uint8", axis: int = 0
) -> relax.Expr:
    return dequantize(x, const(scale), const(zero, dtype), axis=axis)


def code(x: relax.Expr, scale: float, zero: int, dtype: str = "uint8") -> relax.Expr:
    return quantize(x, const(scale), const(zero, dtype), axis=0)
