"""How a tensor of real numbers is coded in 8 bits, and constants that are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from tvm_neocpu.relay_passes.folding.numpy_ops import NUMPY_OPS
from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.new.quantize import Scaling

# An int8 code plus this is the uint8 code that we store.
SHIFTS = {"uint8": 0, "int8": 128}
MAX_CODE = 255
# Operations whose result has the elements of their constant operand in another order or shape.
_MOVES = frozenset(
    f"relax.{name}" for name in ("expand_dims", "permute_dims", "reshape", "squeeze")
)


@dataclass(frozen=True)
class Encoding:
    """A uint8 code stands for ``(code - zero) * scale``; ``scale`` is a float32."""

    scale: float
    zero: int

    @staticmethod
    def of(scaling: Scaling | None, dtype: str) -> Encoding | None:
        """The encoding as uint8 of a tensor of 8-bit integers; ``None`` for any other tensor."""
        if scaling is None or not scaling.is_uniform or dtype not in SHIFTS:
            return None
        return Encoding(scaling.scale.item(), scaling.zero.item() + SHIFTS[dtype])

    def code(self, value: float) -> int | None:
        """The code that stands for exactly this value; ``None`` if there is none."""
        code = value / self.scale + self.zero
        return int(code) if 0 <= code <= MAX_CODE and code == int(code) else None


@dataclass(frozen=True)
class CodedConstant:
    """``(integers - zero) * scale``, all three of one shape; scale and zero are views as a rule."""

    integers: Array
    scale: Array
    zero: Array

    @staticmethod
    def of(integers: Array, scaling: Scaling) -> CodedConstant:
        shape = integers.shape
        scale, zero = (np.broadcast_to(part, shape) for part in (scaling.scale, scaling.zero))
        return CodedConstant(integers, scale, zero)

    @property
    def differences(self) -> Array:
        """``integers - zero`` in int64."""
        return self.integers.astype("int64") - self.zero

    def real(self) -> relax.Constant:
        """The constant in float32, as ONNX dequantises it."""
        return constant_of(self.differences.astype("float32") * self.scale, "float32")

    def scale_along(self, axis: int) -> Array | None:
        """The scale for each index of ``axis``, or one for all; ``None`` if it varies otherwise."""
        if self.scale.size == 0:
            return None
        rows = np.moveaxis(self.scale, axis, 0)
        first = rows[(slice(None), *[slice(0, 1)] * (rows.ndim - 1))]
        if not np.array_equal(rows, np.broadcast_to(first, rows.shape)):
            return None
        flat = first.reshape(-1)
        return flat[:1].reshape(()) if np.all(flat == flat[0]) else flat

    def moved(self, call: relax.Call) -> CodedConstant | None:
        """What the call makes of this operand; ``None`` for a call that is no move."""
        if op_name(call) not in _MOVES:
            return None
        rest = [static_shape(call)] if op_name(call) == "relax.reshape" else []
        function = NUMPY_OPS[op_name(call)]
        parts = [function(call.attrs, a, *rest) for a in (self.integers, self.scale, self.zero)]
        return CodedConstant(*parts)


def nearest_codes(values: Array, scale: Array, zero: Array, dtype: str) -> Array:
    """Real numbers in 8 bits as ONNX quantises them; all but the values broadcast."""
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        places = np.round(values / scale) + zero
    return np.clip(places, limits.min, limits.max).astype(dtype)


def integer_weight(differences: Array) -> relax.Constant:
    """Weights less their zero point as an int8 constant, or as int16 where they do not fit.

    uint8 weights around 128 are int8 weights around 0.
    """
    limits = np.iinfo("int8")
    fits = differences.min(initial=0) >= limits.min and differences.max(initial=0) <= limits.max
    return constant_of(differences.astype("int8" if fits else "int16"))


def coded_constant(data: relax.Expr, scaling: Scaling | None) -> CodedConstant | None:
    """A constant of integers that is dequantised; ``None`` for any other expression."""
    integers = array_of(data)
    if integers is None or scaling is None or dtype_of(data) not in (*SHIFTS, "int32"):
        return None
    return CodedConstant.of(integers, scaling)
