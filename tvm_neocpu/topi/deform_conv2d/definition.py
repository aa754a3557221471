"""Deformable convolution word for word, over plain tensors of any float type.

What is computed where no template takes the call: in types that templates do not know, or with
weights that are not constant. Two stages, because the second reads each sampled value often.
"""

from __future__ import annotations

from tvm import te, tirx
from tvm.ir import Expr

from tvm_neocpu.topi.deform_conv2d import places
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

# What narrower types are computed in: float16 has only even columns from 2048 on.
MIN_TYPE = "float32"


def wide_type(dtype: str) -> str:
    """What places and sums are computed in: the type itself, or float32 if it is narrower."""
    return "float64" if dtype == "float64" else MIN_TYPE


def sampled(
    data: te.Tensor, offset: te.Tensor, *mask: te.Tensor, deform: DeformConvWorkload
) -> te.Tensor:
    """(N, C, H, W), offsets and perhaps a mask -> (N, C, R, S, OH, OW) of :func:`wide_type`."""
    wide, (rows, cols) = wide_type(deform.types.data), deform.kernel
    image, channels = (deform.height, deform.width), deform.in_channels // deform.offset_groups

    def value(n, c, kh, kw, *at):
        group = c // channels
        tap = (group * rows + kh) * cols + kw

        def place(axis: int) -> Expr:
            step = (kh, kw)[axis] * deform.dilation[axis] - deform.padding[axis]
            unmoved = (at[axis] * deform.stride[axis] + step).astype(wide)
            move = offset(n, tap * 2 + axis, *at).astype(wide)
            return places.clamped(unmoved + move, image[axis])

        def pixel(down: int, right: int) -> Expr:
            sides = list(zip((place(0), place(1)), image, (down, right), strict=True))
            spot = [places.pixel(*side) for side in sides]
            row, col = (places.share(*side) for side in sides)
            return data(n, c, *spot).astype(wide) * (row * col)

        total = pixel(0, 0) + pixel(0, 1) + pixel(1, 0) + pixel(1, 1)
        return total * mask[0](n, tap, *at).astype(wide) if mask else total

    shape = (deform.batch, deform.in_channels, rows, cols, *deform.out_shape[2:])
    return te.compute(shape, value, name="sampled")


def multiplied(columns: te.Tensor, weight: te.Tensor, deform: DeformConvWorkload) -> te.Tensor:
    """:func:`sampled` values and (K, C/groups, R, S) weights -> (N, K, OH, OW)."""
    inputs, outputs = weight.shape[1], deform.out_channels // deform.groups
    reduced = [te.reduce_axis((0, extent)) for extent in weight.shape[1:]]
    c, kh, kw = reduced

    def product(n, k, y, x):
        column = columns[n, k // outputs * inputs + c, kh, kw, y, x]
        return te.sum(column * weight[k, c, kh, kw].astype(columns.dtype), axis=reduced)

    total = te.compute(deform.out_shape, product, name="multiplied")
    if total.dtype == deform.types.output:
        return total
    return te.compute(
        deform.out_shape, lambda *at: tirx.Cast(deform.types.output, total(*at)), name="rounded"
    )
