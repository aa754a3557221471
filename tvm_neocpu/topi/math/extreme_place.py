"""Where the largest or the smallest element along an axis is: ArgMax and ArgMin.

A NaN is chosen only where it stands first: nothing is larger than it, nor smaller, as in ONNX
Runtime. Along the innermost axis a reduction of pairs, number and place, is scalar code in LLVM;
there long rows are reduced twice, each time in vectors: the number, then the first place of it.
"""

from __future__ import annotations

import math

from tvm import te, tirx
from tvm.ir import Expr

from tvm_neocpu.topi.math.extremes import largest, smallest

# Shorter rows are read once: 19 classes of 256 x 256 pixels took 2.5 ms in vectors, 2.1 in pairs.
LONG = 64


def place_of_extreme(
    x: te.Tensor, axis: int, is_largest: bool, keeps: bool, last: bool
) -> te.Tensor:
    """int64: the place of the first of equal elements along ``axis``, of the ``last`` if so asked.

    The axis becomes 1 if ``keeps``, else it vanishes.
    """
    is_float = _is_float(x)

    def number(*at: Expr) -> Expr:
        if not is_float:
            return x(*at)
        worst = tirx.const(-math.inf if is_largest else math.inf, x.dtype)
        return tirx.Select(_is_number(x(*at)), x(*at), worst)

    numbers = te.compute(x.shape, number, name="numbers")
    length = x.shape[axis]
    is_long = axis == len(x.shape) - 1 and not (isinstance(length, tirx.IntImm) and length < LONG)
    find = _by_number if is_long else _in_pairs
    # Of NaN alone the place is none that exists; the first one's is taken below.
    found = find(numbers, x, axis, is_largest, last)

    def element(*at: Expr) -> Expr:
        ahead, behind = at[:axis], at[axis + keeps :]
        place = tirx.Cast("int64", found(*ahead, *behind))
        if not is_float:
            return place
        first = x(*ahead, 0, *behind)
        return tirx.Select(_is_number(first), place, tirx.const(0, "int64"))

    ones = [1] if keeps else []
    return te.compute([*x.shape[:axis], *ones, *x.shape[axis + 1 :]], element, name="place")


def _is_float(x: te.Tensor) -> bool:
    return str(x.dtype).startswith("float")


def _is_number(x: Expr) -> Expr:
    """False for a NaN. TVM takes x == x for true, and pairs beside its isnan come out wrong."""
    return x >= tirx.const(-math.inf, x.ty.dtype)


def _by_number(
    x: te.Tensor, given: te.Tensor, axis: int, is_largest: bool, last: bool
) -> te.Tensor:
    """int32, without the axis: the least or the largest place of the best number."""
    best = (largest if is_largest else smallest)(x, (axis,), keeps=True)
    none = tirx.Cast("int32", -1 if last else x.shape[axis])

    def at_best(*at: Expr) -> Expr:
        is_best = x(*at) == best(*at[:axis], 0, *at[axis + 1 :])
        if _is_float(x):
            is_best = tirx.all(is_best, _is_number(given(*at)))
        return tirx.Select(is_best, tirx.Cast("int32", at[axis]), none)

    places = te.compute(x.shape, at_best, name="at_best")
    return (largest if last else smallest)(places, (axis,), keeps=False)


def _in_pairs(x: te.Tensor, given: te.Tensor, axis: int, is_largest: bool, last: bool) -> te.Tensor:
    """int32, without the axis: the place that goes along with the best number."""

    def better(one: tuple[Expr, Expr], other: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (place, value), (next_place, next_value) = one, other
        if is_largest:
            wins = next_value >= value if last else next_value > value
        else:
            wins = next_value <= value if last else next_value < value
        wins = tirx.all(next_place >= 0, tirx.any(place < 0, wins))
        return tirx.Select(wins, next_place, place), tirx.Select(wins, next_value, value)

    def worst(place: str, value: str) -> tuple[Expr, Expr]:
        bound = tirx.min_value(value) if is_largest else tirx.max_value(value)
        return tirx.const(-1, place), bound

    step = te.reduce_axis((0, x.shape[axis]), name="step")

    def element(*at: Expr) -> tuple[Expr, Expr]:
        whole = (*at[:axis], step, *at[axis:])
        place = tirx.Cast("int32", step)
        if _is_float(x):
            place = tirx.Select(_is_number(given(*whole)), place, tirx.const(-1, "int32"))
        return place, x(*whole)

    pairs = te.comm_reducer(better, worst, name="better")
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
    return te.compute(shape, lambda *at: pairs(element(*at), axis=step), name="best")[0]
