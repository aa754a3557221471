"""Instance normalisation: a plane is read three times while it is in a near cache.

The variance is the mean of (x - mean)^2, so that a large mean costs no digits. In a blocked layout
a plane is one of vectors: sums go down its columns, which lie in L1, and then along the one row
that is left.

    for n, o:
        for y, x: columns[x] += data[n, o, y, x]      # vectors of channels
        for x: sum += columns[x]
        for y, x: columns[x] += (data[n, o, y, x] - mean)^2
        ..
        for y, x: result[n, o, y, x] = (data[n, o, y, x] - mean) * factor
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx
from tvm.ir import Expr

from tvm_neocpu.topi.math.layer_norm import Element, Groups, around_mean, centred_and_factor
from tvm_neocpu.topi.schedule.stages import stage_attrs

# The (N, C), or (N, C/x), that every stage shares.
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


def blocked_instance_norm(data: te.Tensor, epsilon: float) -> te.Tensor:
    """``(x - mean) / sqrt(variance + epsilon)`` over each channel's image of (N, C/x, H, W, x).

    Scale and bias are left to operations behind it.
    """
    _, _, height, width, _ = (int(extent) for extent in data.shape)
    groups = Groups(
        lambda element, name: _over_image(data.shape, element, name),
        lambda at: (*at[:OUTER_AXES], at[-1]),
        height * width,
        OUTER_AXES,
    )
    one = tirx.const(1, data.dtype)
    centred, factor = around_mean(data, groups, lambda *_: one, epsilon)
    return te.compute(
        data.shape,
        lambda n, o, y, x, c: centred(n, o, y, x, c) * factor(n, o, c),
        name="instance_norm",
    )


def _over_image(shape: Sequence[Expr], element: Element, name: str) -> te.Tensor:
    """The sum of a function of each channel's pixels, (N, C/x, x), of a map of such a shape."""
    batch, blocks, height, width, lanes = shape
    y, x = te.reduce_axis((0, height), name="y"), te.reduce_axis((0, width), name="x")
    attrs = stage_attrs(OUTER_AXES, of_vectors=True)
    columns = te.compute(
        (batch, blocks, width, lanes),
        lambda n, o, x, c: te.sum(element(n, o, y, x, c), axis=y),
        name=f"{name}_of_columns",
        attrs=attrs,
    )
    return te.compute(
        (batch, blocks, lanes),
        lambda n, o, c: te.sum(columns(n, o, x, c), axis=x),
        name=name,
        attrs=attrs,
    )
