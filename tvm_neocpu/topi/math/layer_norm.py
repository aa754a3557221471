"""Layer normalisation over the last axis: a row is read three times while it is in L1.

The variance is the mean of (x - mean)^2, so that a large mean costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tvm import te, tirx
from tvm.ir import Expr

from tvm_neocpu.topi.schedule.stages import stage_attrs

Element = Callable[..., Expr]


def layer_norm(data: te.Tensor, scale: te.Tensor, bias: te.Tensor, epsilon: float) -> te.Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over each row of (..., C).

    ``scale`` and ``bias``: (C,). ``data`` has two axes or more.
    """
    one = tirx.const(1, data.dtype)
    centred, factor = centred_and_factor(data, len(data.shape) - 1, lambda *_: one, epsilon)
    return te.compute(
        data.shape,
        lambda *at: centred(*at) * factor(*at[:-1]) * scale(at[-1]) + bias(at[-1]),
        name="layer_norm",
    )


def centred_and_factor(
    data: te.Tensor, outer: int, scale: Element, epsilon: float
) -> tuple[Element, te.Tensor]:
    """``x - mean``, an element, and ``scale / sqrt(variance + epsilon)``, one for each row.

    A row is what lies behind the first ``outer`` axes; ``scale`` is a function of these.
    """
    rows, inside = data.shape[:outer], data.shape[outer:]

    def summed(element: Element, name: str) -> te.Tensor:
        k = [te.reduce_axis((0, extent), name="k") for extent in inside]
        return te.compute(
            rows,
            lambda *row: te.sum(element(*row, *k), axis=k),
            name=name,
            attrs=stage_attrs(outer),
        )

    groups = Groups(summed, lambda at: at[:outer], prod(int(extent) for extent in inside), outer)
    return around_mean(data, groups, scale, epsilon)


@dataclass(frozen=True)
class Groups:
    """Which elements share a mean: ``count`` of them in each group.

    ``summed(element, name)`` sums a function of elements over each group. ``of(at)`` is the index
    of the group that the element at a place is in. Stages share the first ``outer`` axes.
    """

    summed: Callable[[Element, str], te.Tensor]
    of: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]
    count: int
    outer: int


def around_mean(
    data: te.Tensor, groups: Groups, scale: Element, epsilon: float
) -> tuple[Element, te.Tensor]:
    """:func:`centred_and_factor` of any groups; ``scale`` is a function of a group's index."""
    dtype, attrs = data.dtype, stage_attrs(groups.outer)
    share = tirx.const(1 / groups.count, dtype)
    total = groups.summed(data, "norm_sum")

    def stage(element: Element, name: str) -> te.Tensor:
        return te.compute(total.shape, element, name=name, attrs=attrs)

    def centred(*at: Expr) -> Expr:
        return data(*at) - mean(*groups.of(at))

    mean = stage(lambda *group: total(*group) * share, "norm_mean")
    squares = groups.summed(lambda *at: centred(*at) * centred(*at), "norm_squares")
    least = tirx.const(epsilon, dtype)
    factor = stage(
        lambda *group: scale(*group) / tirx.sqrt(squares(*group) * share + least), "norm_factor"
    )
    return centred, factor
