"""The largest and the smallest of floats. TVM's begin with finite ones: of -inf alone, -3.4e38."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from tvm import te, tirx

_LARGEST = te.comm_reducer(
    lambda one, other: tirx.Max(one, other),
    lambda dtype: tirx.const(-math.inf, dtype) if "float" in dtype else tirx.min_value(dtype),
)
_SMALLEST = te.comm_reducer(
    lambda one, other: tirx.Min(one, other),
    lambda dtype: tirx.const(math.inf, dtype) if "float" in dtype else tirx.max_value(dtype),
)


def largest(x: te.Tensor, axes: Collection[int], keeps: bool) -> te.Tensor:
    """Over ``axes``, which become 1 if ``keeps``, else vanish. Of NaN it may be any number."""
    return _reduced(x, axes, keeps, _LARGEST, "max")


def smallest(x: te.Tensor, axes: Collection[int], keeps: bool) -> te.Tensor:
    """As :func:`largest`."""
    return _reduced(x, axes, keeps, _SMALLEST, "min")


def _reduced(
    x: te.Tensor,
    axes: Collection[int],
    keeps: bool,
    combine: Callable[..., tirx.Expr],
    name: str,
) -> te.Tensor:
    rank = len(x.shape)
    steps = {axis: te.reduce_axis((0, x.shape[axis]), name=f"k{axis}") for axis in sorted(axes)}
    results = [axis for axis in range(rank) if keeps or axis not in steps]

    def element(*index: tirx.Var) -> tirx.Expr:
        place = {**dict(zip(results, index, strict=True)), **steps}
        return combine(x(*(place[axis] for axis in range(rank))), axis=list(steps.values()))

    shape = [1 if axis in steps else x.shape[axis] for axis in results]
    return te.compute(shape, element, name=name)
