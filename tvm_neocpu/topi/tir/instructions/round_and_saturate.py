"""The end of a requantisation as a rounding conversion and saturating packs.

    uint8(min(max(round(t) + z, 0), 255))
    ->  uint8(clip(int16(clip(lrint(min(t, 2^14)), -2^15, 2^15 - 1)) + z, 0, 255))

The first form rounds, adds, compares and converts in fp32, element type by element type. CPUs have
one instruction for a rounding conversion (vcvtps2dq), and packs that clip as they narrow: LLVM
makes them of each clip, those of x86 are ours (:mod:`...math.saturating_packs`). Both forms round
half to even, and agree for every number; x86 converts what is below the range of int32, minus
infinity too, to its least, which saturates as it should.

What :func:`tvm_neocpu.topi.math.vector_math.nearest` rounds behind its clip is of this form too.

    uint8(clip(int32(round(t)), a, b) + z)
    ->  uint8(clip(sadd_sat(int16(clip(lrint(t), -2^15, 2^15 - 1)), z), a + z, b + z))

The second form's t fits int32, as its text says: no min is needed, and one conversion of any
``int32(round(t))``. Its bounds fit the bytes: a cast of what does not would keep the low bits.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.math.saturating_packs import Codes, llvm_code, packed
from tvm_neocpu.topi.math.vector_math import ROUND
from tvm_neocpu.topi.tir.loops.affine import contains, is_call, names_values
from tvm_neocpu.topi.tir.loops.rewrite_loops import with_code

# Both round half to even.
ROUNDS = ("tirx.round", "tirx.nearbyint")
# Bounds of the types that are narrowed to.
BOUNDS = {"uint8": (0, 255), "int8": (-128, 127)}
MAX_ZERO = 255
# Larger numbers saturate, whatever zero point is added; beyond 2^31 they do not convert.
TOO_LARGE = float(2**14)


def round_and_saturate(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with every such cast rewritten; before TVM vectorises."""

    used: set[Codes] = set()

    def narrowed(whole: Expr, codes: Codes) -> Expr:
        if not cpu.packs:
            return codes.of(whole)
        used.add(codes)
        return packed(whole, codes, cpu.packs)

    def rewritten(cast: tirx.Cast) -> Expr:
        dtype = str(cast.ty.dtype)
        if _is_conversion(cast):
            return _converted(cast.value.args[0])
        whole = _found_whole(cast.value, dtype) if dtype in BOUNDS else None
        if whole is not None:
            return narrowed(*whole)
        found = _found(cast.value, dtype) if dtype in BOUNDS else None
        # TVM does not vectorise a call of bound expressions.
        if found is None or names_values(found[0]):
            return cast
        return narrowed(_converted(found[0]), Codes(dtype, *BOUNDS[dtype], found[1]))

    if not _rounds(func):
        return func
    func = func.with_body(tvm_ffi.structural_map(func.body, (tirx.Cast, rewritten)))
    for codes in sorted(used, key=lambda codes: codes.name):
        func = with_code(func, llvm_code(codes, cpu.packs))
    return func


def _is_conversion(cast: tirx.Cast) -> bool:
    """Whether it is int32(round(t)) of a t that TVM can vectorise a call of."""
    value: Any = cast.value
    if str(cast.ty.dtype) != "int32" or not is_call(value, *ROUNDS):
        return False
    return str(value.ty.dtype) == "float32" and not names_values(value.args[0])


def _found_whole(value: Any, dtype: str) -> tuple[Expr, Codes] | None:
    """lrint(t), and the codes of clip(lrint(t), a, b) + z, whose numbers a cast to the type keeps.

    A cast of others would keep their low bits, where packs saturate.
    """
    zero = 0
    if isinstance(value, tirx.Add) and isinstance(value.b, tirx.IntImm):
        value, zero = value.a, int(value.b)
    clipped = _clipped(value, tirx.IntImm)
    if clipped is None or not is_call(clipped[0], "tirx.call_llvm_pure_intrin"):
        return None
    low, high = (int(bound) for bound in clipped[1:])
    least, most = BOUNDS[dtype]
    fits = zero in range(MAX_ZERO + 1) and least <= low + zero <= high + zero <= most
    return (clipped[0], Codes(dtype, low + zero, high + zero, zero)) if fits else None


def _found(value: Any, dtype: str) -> tuple[Expr, int] | None:
    """(t, z) of what rounds t, adds z and saturates; t is too small to leave 16 bits."""
    low, high = BOUNDS[dtype]
    clipped = _clipped(value)
    if clipped is not None and clipped[1:] == (low, high):
        rounded = _rounded(clipped[0])
        return None if rounded is None else (_bounded(rounded[0], TOO_LARGE), rounded[1])
    nearest = _nearest(value)
    clipped = None if nearest is None else _clipped(nearest[0])
    if nearest is None or clipped is None:
        return None
    inside, zero = nearest[0], nearest[1]
    value, least, most = clipped
    if not low - zero <= least <= most <= high - zero:
        return None
    # The least code is what packs saturate to.
    return (_bounded(value, most) if least == low - zero else inside), zero


def _nearest(value: Any) -> tuple[Any, int] | None:
    """(x, z) of (x + ROUND) + (z - ROUND)."""
    if not isinstance(value, tirx.Add) or not isinstance(value.a, tirx.Add):
        return None
    first, second = value.a.b, value.b
    if not (isinstance(first, tirx.FloatImm) and isinstance(second, tirx.FloatImm)):
        return None
    zero = second.value + ROUND
    return (value.a.a, int(zero)) if first.value == ROUND and _is_zero_point(zero) else None


def _is_zero_point(value: float) -> bool:
    return value in range(MAX_ZERO + 1)


def _bounded(value: Expr, most: float) -> Expr:
    """At most that; a NaN stays, because the constant stands first, and converts to the least."""
    return tirx.Min(tirx.const(most, "float32"), value)


def _clipped(value: Any, constant: Any = tirx.FloatImm) -> tuple[Any, float, float] | None:
    """(x, low, high) of min(max(x, low), high), in any order of the operands."""
    for outer, inner in ((tirx.Min, tirx.Max), (tirx.Max, tirx.Min)):
        last = _split(value, outer, constant)
        first = None if last is None else _split(last[0], inner, constant)
        if last is not None and first is not None:
            bounds = first[1], last[1]
            return (first[0], *(bounds if outer is tirx.Min else bounds[::-1]))
    return None


def _split(value: Any, kind: Any, constant: Any) -> tuple[Any, float] | None:
    """(x, c) of an extreme of x and a constant."""
    if not isinstance(value, kind):
        return None
    extreme: Any = value
    for one, other in ((extreme.a, extreme.b), (extreme.b, extreme.a)):
        if isinstance(one, constant):
            return other, float(one.value)
    return None


def _rounded(value: Expr) -> tuple[Expr, int] | None:
    """(t, z) of round(t) + z, of fp32."""
    parts: tuple[Any, Any] = (value, None)
    if isinstance(value, tirx.Add):
        parts = value.a, value.b
    for rounded, zero in (parts, parts[::-1]):
        if not is_call(rounded, *ROUNDS) or str(rounded.ty.dtype) != "float32":
            continue
        if zero is None:
            return rounded.args[0], 0
        if isinstance(zero, tirx.FloatImm) and _is_zero_point(zero.value):
            return rounded.args[0], int(zero.value)
    return None


def _converted(value: Expr) -> Expr:
    """The nearest int32, half to even."""
    return tirx.call_llvm_pure_intrin("int32", "llvm.lrint", value)


def _rounds(func: tirx.PrimFunc) -> bool:
    """Whether a function makes bytes of something, or rounds to whole numbers; most do not."""

    def rounds(cast: tirx.Cast) -> bool:
        return str(cast.ty.dtype) in BOUNDS or _is_conversion(cast)

    return contains(func.body, tirx.Cast, rounds)
