"""Instance normalisation of NCHW images: a plane is read three times while it is in a near cache.

The variance is the mean of (x - mean)^2, so that a large mean costs no digits.
"""

from __future__ import annotations

from math import prod

from tvm import te, tirx

from tvm_neocpu.topi.schedule.stages import stage_attrs

# The (N, C) that every stage shares.
OUTER_AXES = 2


def instance_norm(data: te.Tensor, scale: te.Tensor, bias: te.Tensor, epsilon: float) -> te.Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over each plane of (N, C, H, W).

    ``scale`` and ``bias``: (C,).
    """
    planes, image = data.shape[:OUTER_AXES], data.shape[OUTER_AXES:]
    dtype, attrs = data.dtype, stage_attrs(OUTER_AXES)
    share = tirx.const(1 / prod(int(extent) for extent in image), dtype)

    def summed(element, name: str) -> te.Tensor:
        k = [te.reduce_axis((0, extent), name="k") for extent in image]
        return te.compute(
            planes, lambda n, c: te.sum(element(n, c, *k), axis=k), name=name, attrs=attrs
        )

    def centred(n, c, *pixel):
        return data(n, c, *pixel) - mean[n, c]

    total = summed(data, "norm_sum")
    mean = te.compute(planes, lambda n, c: total[n, c] * share, name="norm_mean", attrs=attrs)
    squares = summed(lambda *at: centred(*at) * centred(*at), "norm_squares")
    factor = te.compute(
        planes,
        lambda n, c: scale[c] / tirx.sqrt(squares[n, c] * share + tirx.const(epsilon, dtype)),
        name="norm_factor",
        attrs=attrs,
    )
    return te.compute(
        data.shape,
        lambda n, c, *pixel: centred(n, c, *pixel) * factor[n, c] + bias[c],
        name="instance_norm",
    )
