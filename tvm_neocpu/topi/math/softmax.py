"""Softmax and its logarithm over one axis, with the vectorised exp and log.

max over the axis, exp(x - max), its sum, the quotient: each stage is one that the general schedule
knows. The quotient is a multiplication, for there is one reciprocal a row.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import te, tirx

from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.schedule.stages import stage_attrs

Index = tuple[tirx.Expr, ...]


def softmax(x: te.Tensor, axis: int) -> te.Tensor:
    """exp(x - max) / sum of exp(x - max) over ``axis``; float32 of any rank from 1."""
    axis %= len(x.shape)
    _, powers, total = _powers(x, axis, "softmax")
    one = tirx.const(1.0, vector_math.DTYPE)
    reciprocal = te.compute(total.shape, lambda *i: one / total(*i), name="softmax_reciprocal")
    return te.compute(
        x.shape,
        lambda *index: powers[index] * reciprocal[_without(index, axis)],
        name="softmax",
    )


def log_softmax(x: te.Tensor, axis: int) -> te.Tensor:
    """x - max - log(sum of exp(x - max)) over ``axis``; float32 of any rank from 1."""
    axis %= len(x.shape)
    largest, _, total = _powers(x, axis, "log_softmax")
    logarithm = te.compute(
        total.shape, lambda *i: vector_math.log(total(*i)), name="log_softmax_log"
    )

    def shifted(*index: tirx.Expr) -> tirx.Expr:
        row = _without(index, axis)
        return x[index] - largest[row] - logarithm[row]

    return te.compute(x.shape, shifted, name="log_softmax")


def _powers(x: te.Tensor, axis: int, name: str) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """The maximum, exp of each element minus the maximum, and the sum of these exps."""
    largest = _reduced(x, axis, te.max, f"{name}_max")
    powers = te.compute(
        x.shape,
        lambda *index: vector_math.exp_of_negative(x[index] - largest[_without(index, axis)]),
        name=f"{name}_exp",
        attrs=_row_attrs(x, axis),
    )
    return largest, powers, _reduced(powers, axis, te.sum, f"{name}_sum")


def _reduced(x: te.Tensor, axis: int, combine: Callable[..., tirx.Expr], name: str) -> te.Tensor:
    """``combine`` over one axis, which vanishes."""
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]

    def element(*index: tirx.Expr) -> tirx.Expr:
        return combine(x[(*index[:axis], k, *index[axis:])], axis=k)

    return te.compute(shape, element, name=name, attrs=_row_attrs(x, axis))


def _row_attrs(x: te.Tensor, axis: int) -> dict[str, object]:
    """Over the last of several axes all stages of a row follow each other, while it is in L1."""
    return stage_attrs(axis) if 0 < axis == len(x.shape) - 1 and _is_static(x) else {}


def _is_static(x: te.Tensor) -> bool:
    return all(isinstance(extent, tirx.IntImm | int) for extent in x.shape)


def _without(index: Index, axis: int) -> Index:
    return (*index[:axis], *index[axis + 1 :])
