"""Layer normalisation over the last axis: a row is read three times while it is in L1.

The variance is the mean of (x - mean)^2, so that a large mean costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tvm import te, tirx

from tvm_neocpu.topi.schedule.stages import stage_attrs

Element = Callable[..., tirx.Expr]


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
    dtype, attrs = data.dtype, stage_attrs(outer)
    share = tirx.const(1 / prod(int(extent) for extent in inside), dtype)

    def stage(element: Element, name: str) -> te.Tensor:
        return te.compute(rows, element, name=name, attrs=attrs)

    def summed(element: Element, name: str) -> te.Tensor:
        k = [te.reduce_axis((0, extent), name="k") for extent in inside]
        return stage(lambda *row: te.sum(element(*row, *k), axis=k), name)

    def centred(*at: tirx.Expr) -> tirx.Expr:
        return data(*at) - mean(*at[:outer])

    total = summed(data, "norm_sum")
    mean = stage(lambda *row: total(*row) * share, "norm_mean")
    squares = summed(lambda *at: centred(*at) * centred(*at), "norm_squares")
    factor = stage(
        lambda *row: scale(*row) / tirx.sqrt(squares(*row) * share + tirx.const(epsilon, dtype)),
        "norm_factor",
    )
    return centred, factor
