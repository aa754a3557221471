"""The end of a requantisation as a rounding conversion and saturating packs.

    uint8(min(max(round(t) + z, 0), 255))
    ->  uint8(clip(int16(clip(lrint(min(t, 2^14)), -2^15, 2^15 - 1)) + z, 0, 255))

The first form rounds, adds, compares and converts in fp32, element type by element type. LLVM has
one instruction for a rounding conversion (vcvtps2dq) and for each clip with its narrowing
(vpackssdw, vpackuswb). Both forms round half to even, and agree for every number; x86 converts what
is below the range of int32, minus infinity too, to its least, which saturates as it should.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr

from tvm_neocpu.core.cpu import Cpu

# Both round half to even.
ROUNDS = ("tirx.round", "tirx.nearbyint")
# Bounds of the types that are narrowed to.
BOUNDS = {"uint8": (0, 255), "int8": (-128, 127)}
MAX_ZERO = 255
HALF = (-(2**15), 2**15 - 1)
# Larger numbers saturate, whatever zero point is added; beyond 2^31 they do not convert.
TOO_LARGE = float(2**14)


def round_and_saturate(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with every such cast rewritten; before TVM vectorises."""

    def rewritten(cast: tirx.Cast) -> Expr:
        dtype = str(cast.ty.dtype)
        clipped = _clipped(cast.value, BOUNDS[dtype]) if dtype in BOUNDS else None
        found = None if clipped is None else _rounded(clipped)
        return cast if found is None else _packed(*found, dtype)

    if not _rounds(func):
        return func
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.Cast, rewritten)))


def _clipped(value: Expr, bounds: tuple[int, int]) -> Expr | None:
    """x of min(max(x, low), high), in any order of the operands."""
    for outer, inner, (last, first) in (
        (tirx.Min, tirx.Max, bounds[::-1]),
        (tirx.Max, tirx.Min, bounds),
    ):
        inside = _other(value, outer, last)
        found = None if inside is None else _other(inside, inner, first)
        if found is not None:
            return found
    return None


def _other(value: Any, kind: Any, bound: int) -> Expr | None:
    """What an extreme takes beside a constant."""
    if not isinstance(value, kind):
        return None
    for one, other in ((value.a, value.b), (value.b, value.a)):
        if isinstance(one, tirx.FloatImm) and float(one.value) == bound:
            return other
    return None


def _rounded(value: Expr) -> tuple[Expr, int] | None:
    """(t, z) of round(t) + z, of fp32."""
    parts: tuple[Any, Any] = (value, None)
    if isinstance(value, tirx.Add):
        parts = value.a, value.b
    for rounded, zero in (parts, parts[::-1]):
        if not _is_round(rounded) or str(rounded.ty.dtype) != "float32":
            continue
        if zero is None:
            return rounded.args[0], 0
        if isinstance(zero, tirx.FloatImm) and zero.value in range(MAX_ZERO + 1):
            return rounded.args[0], int(zero.value)
    return None


def _packed(value: Expr, zero: int, dtype: str) -> Expr:
    bounded = tirx.Min(value, tirx.const(TOO_LARGE, "float32"))
    whole = tirx.call_llvm_pure_intrin("int32", "llvm.lrint", bounded)
    half = _clip(whole, HALF, "int32").astype("int16")
    shifted = half + tirx.const(zero, "int16") if zero else half
    return _clip(shifted, BOUNDS[dtype], "int16").astype(dtype)


def _clip(value: Expr, bounds: tuple[int, int], dtype: str) -> Expr:
    low, high = (tirx.const(bound, dtype) for bound in bounds)
    return tirx.Max(tirx.Min(value, high), low)


def _is_round(value: Any) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", None) in ROUNDS


def _rounds(func: tirx.PrimFunc) -> bool:
    def stop(call: Call) -> tvm_ffi.VisitInterrupt | None:
        return tvm_ffi.VisitInterrupt(None) if _is_round(call) else None

    return tvm_ffi.structural_walk(func.body, (Call, stop)) is not None
