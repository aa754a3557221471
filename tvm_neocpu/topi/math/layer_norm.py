"""Layer normalisation over the last axis: a row is read three times while it is in L1.

The variance is the mean of (x - mean)^2, so that a large mean costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import te, tirx

from tvm_neocpu.topi.schedule.stages import stage_attrs


def layer_norm(data: te.Tensor, scale: te.Tensor, bias: te.Tensor, epsilon: float) -> te.Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over each row of (..., C).

    ``scale`` and ``bias``: (C,). ``data`` has two axes or more.
    """
    *rows, channels = data.shape
    dtype, attrs = data.dtype, stage_attrs(len(rows))
    share = tirx.const(1 / int(channels), dtype)

    def summed(element: Callable[..., tirx.Expr], name: str) -> te.Tensor:
        k = te.reduce_axis((0, channels), name="k")
        return te.compute(rows, lambda *i: te.sum(element(*i, k), axis=k), name=name, attrs=attrs)

    def centred(*at: tirx.Expr) -> tirx.Expr:
        return data(*at) - mean(*at[:-1])

    total = summed(data, "norm_sum")
    mean = te.compute(rows, lambda *i: total(*i) * share, name="norm_mean", attrs=attrs)
    squares = summed(lambda *at: centred(*at) * centred(*at), "norm_squares")
    factor = te.compute(
        rows,
        lambda *i: (
            tirx.const(1, dtype) / tirx.sqrt(squares(*i) * share + tirx.const(epsilon, dtype))
        ),
        name="norm_factor",
        attrs=attrs,
    )
    return te.compute(
        data.shape,
        lambda *at: centred(*at) * factor(*at[:-1]) * scale(at[-1]) + bias(at[-1]),
        name="layer_norm",
    )
