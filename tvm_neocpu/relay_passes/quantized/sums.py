"""Real numbers that are not computed yet: a scaled sum of tensors between two bounds.

    clip(sum((tensor + shift) * scale) + offset, low, high)

A dequantised tensor, the result of an integer convolution, and what sums, products with constants
and ReLUs make of them have this form. Quantised it costs one product a tensor, one rounding, one
clip: rounding and clipping are monotonous, so that all bounds become one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import Array, constant_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of
from tvm_neocpu.relay_passes.operators.new.quantize import Emit, nearest, whole_between
from tvm_neocpu.relay_passes.quantized.encoding import MAX_CODE, Encoding

# A sum of more tensors is computed in parts.
MAX_TERMS = 3
_INT32 = np.iinfo("int32")
# Sums of no greater size are converted to int32 without a look at bounds, rounding errors and all.
_CONVERTS = float(2**30)


@dataclass(frozen=True)
class Term:
    """``(tensor + shift) * scale``; the tensor is uint8, int32 or float32.

    ``shift`` (whole numbers) and ``scale`` (float32) are scalars or broadcast along the channels.
    ``most`` is the largest size of an int32 tensor's elements.
    """

    tensor: relax.Expr
    scale: Array
    shift: Array
    most: float = float(2**31)

    @property
    def shifts_in_int(self) -> bool:
        """Whether the shift is added to integers, as ONNX Runtime adds a bias: exactly."""
        return dtype_of(self.tensor) == "int32"

    def largest(self, factor: Array) -> float:
        """The largest size of the tensor's elements, shifted if they are int32, times a factor."""
        shifted = min(self.most + float(np.abs(self.shift).max(initial=0)), float(2**31))
        sizes = {"uint8": float(MAX_CODE), "int32": shifted}
        return sizes.get(dtype_of(self.tensor), math.inf) * float(np.abs(factor).max(initial=0))


@dataclass(frozen=True)
class Sum:
    """A value of the form above; ``offset`` is float32, a scalar or along the channels."""

    terms: tuple[Term, ...]
    offset: Array = field(default_factory=lambda: np.zeros((), "float32"))
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_bounded(self) -> bool:
        return self.low > -math.inf or self.high < math.inf

    def plus(self, other: Sum) -> Sum | None:
        """The sum of two values without bounds; ``None`` if it has too many terms."""
        if self.is_bounded or other.is_bounded:
            return None
        if len(self.terms) + len(other.terms) > MAX_TERMS:
            return None
        return Sum(self.terms + other.terms, self.offset + other.offset)

    def plus_constant(self, values: Array) -> Sum | None:
        """With float32 values added; ``None`` behind bounds."""
        return None if self.is_bounded else replace(self, offset=self.offset + values)

    def plus_bias(self, integers: Array, scale: Array) -> Sum | None:
        """With ``integers * scale`` added to an integer product of that very scale, exactly."""
        if self.is_bounded or len(self.terms) != 1 or self.offset.any():
            return None
        (term,) = self.terms
        shift = term.shift.astype("int64") + integers
        if not term.shifts_in_int or not np.allclose(term.scale, scale, rtol=1e-5, atol=0):
            return None
        if shift.min() < _INT32.min or shift.max() > _INT32.max:
            return None
        return replace(self, terms=(replace(term, shift=shift),))

    def times(self, values: Array) -> Sum | None:
        """Multiplied by float32 values; ``None`` behind bounds."""
        if self.is_bounded:
            return None
        terms = tuple(replace(term, scale=term.scale * values) for term in self.terms)
        return Sum(terms, self.offset * values)

    def clipped(self, low: float, high: float) -> Sum:
        """Between two more bounds."""
        return replace(self, low=min(max(self.low, low), high), high=min(max(self.high, low), high))

    def bounds_of_codes(self, encoding: Encoding) -> tuple[int, int] | None:
        """The bounds as codes, if the value is a tensor of this very encoding; else ``None``."""
        if len(self.terms) != 1 or self.offset.any():
            return None
        (term,) = self.terms
        same = term.scale.size == 1 and term.scale.item() == np.float32(encoding.scale)
        if dtype_of(term.tensor) != "uint8" or not same or term.shift.item() != -encoding.zero:
            return None
        low, high = (_place(bound, encoding) for bound in (self.low, self.high))
        return int(low) + encoding.zero, int(high) + encoding.zero

    def of_codes(self, codes: Array) -> Array | None:
        """The value for each code of its one tensor; ``None`` if channels or tensors differ."""
        term = self.terms[0]
        sizes = (term.scale.size, term.shift.size, self.offset.size)
        if len(self.terms) != 1 or dtype_of(term.tensor) != "uint8" or max(sizes) > 1:
            return None
        shift, scale, offset = (each.reshape(()) for each in (term.shift, term.scale, self.offset))
        values = (codes + shift).astype("float32") * scale.astype("float32") + offset
        return np.clip(values, self.low, self.high).astype("float32")

    def real(self, emit: Emit) -> relax.Expr:
        """The value as a float32 tensor; not emitted."""
        parts = [_scaled(emit, term, term.scale, exact=True) for term in self.terms]
        return _clip(emit, _total(emit, parts, self.offset), self.low, self.high)

    def codes(self, emit: Emit, encoding: Encoding) -> tuple[relax.Expr, relax.Expr]:
        """The value in uint8, and ``code - zero`` in int32 or float32; both emitted."""
        step, zero = np.float32(encoding.scale), encoding.zero
        offset, parts, largest = self.offset / step, [], 0.0
        for term in self.terms:
            factor = (term.scale / step).astype("float32")
            parts.append(_scaled(emit, term, factor, exact=False))
            largest += term.largest(factor)
            if not term.shifts_in_int:
                offset = offset + term.shift.astype("float32") * factor
        low, high = (_place(bound, encoding) for bound in (self.low, self.high))
        total = _total(emit, parts, offset)
        if largest + float(np.abs(offset).max(initial=0)) <= _CONVERTS:
            coded = emit(whole_between(total, int(low), int(high), zero))
            whole = emit(whole_between(total, int(low), int(high), 0)) if zero else coded
            return emit(relax.op.astype(coded, "uint8")), whole
        # Rounding keeps whole bounds, so that it may come last, of small numbers.
        bounded = emit(relax.op.clip(total, low, high))
        coded = emit(nearest(bounded, zero))
        whole = emit(nearest(bounded, 0)) if zero else coded
        return emit(relax.op.astype(coded, "uint8")), whole


def _place(bound: float, encoding: Encoding) -> float:
    """The bound as ``code - zero`` within the codes."""
    with np.errstate(over="ignore"):
        place = float(np.round(np.float32(bound) / np.float32(encoding.scale)))
    return min(max(place, -encoding.zero), MAX_CODE - encoding.zero) + 0.0


def _scaled(emit: Emit, term: Term, factor: Array, exact: bool) -> relax.Expr:
    """The term with ``factor`` in place of its scale.

    Without ``exact`` the shift of a uint8 or float32 tensor is left out.
    """
    value = term.tensor
    if term.shifts_in_int and term.shift.any():
        value = emit(relax.op.add(value, constant_of(term.shift, "int32")))
    if dtype_of(value) != "float32":
        value = emit(relax.op.astype(value, "float32"))
    if exact and not term.shifts_in_int and term.shift.any():
        value = emit(relax.op.add(value, constant_of(term.shift.astype("float32"))))
    if np.all(factor == 1):
        return value
    return emit(relax.op.multiply(value, constant_of(np.asarray(factor, "float32"))))


def _total(emit: Emit, parts: list[relax.Expr], offset: Array) -> relax.Expr:
    total, *rest = parts
    for part in rest:
        total = emit(relax.op.add(total, part))
    if not offset.any():
        return total
    return emit(relax.op.add(total, constant_of(np.asarray(offset, "float32"))))


def _clip(emit: Emit, value: relax.Expr, low: float, high: float) -> relax.Expr:
    if low == 0 and high == math.inf:
        return emit(relax.op.nn.relu(value))
    if low > -math.inf and high < math.inf:
        return emit(relax.op.clip(value, low, high))
    if low > -math.inf:
        value = emit(relax.op.maximum(value, relax.const(low, "float32")))
    if high < math.inf:
        value = emit(relax.op.minimum(value, relax.const(high, "float32")))
    return value
