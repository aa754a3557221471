"""Instance normalisation, channels first: a plane is read three times while it is in a near cache.

The variance is the mean of (x - mean)^2, so that a large mean costs no digits.
"""

from __future__ import annotations

from tvm import te

from tvm_neocpu.topi.math.layer_norm import centred_and_factor

# The (N, C) that every stage shares.
OUTER_AXES = 2


def instance_norm(data: te.Tensor, scale: te.Tensor, bias: te.Tensor, epsilon: float) -> te.Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over each plane of (N, C, ...).

    ``scale`` and ``bias``: (C,).
    """
    centred, factor = centred_and_factor(data, OUTER_AXES, lambda n, c: scale[c], epsilon)
    return te.compute(
        data.shape,
        lambda n, c, *pixel: centred(n, c, *pixel) * factor[n, c] + bias[c],
        name="instance_norm",
    )
