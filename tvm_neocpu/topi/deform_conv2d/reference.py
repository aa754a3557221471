"""Deformable convolution by NumPy, one tap of the kernel after the other: the templates' oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

Array = npt.NDArray[Any]


def deformed(
    deform: DeformConvWorkload, data: Array, weight: Array, offset: Array, mask: Array | None = None
) -> Array:
    """(N, C, H, W), (K, C/groups, R, S), offsets and mask -> (N, K, OH, OW).

    Sums are in double precision; places are computed in the type of ``offset``, as kernels do.
    """
    conv, (rows, cols) = deform.conv, deform.kernel
    out = (conv.out_height, conv.out_width)
    moves = offset.reshape(deform.batch, deform.offset_groups, rows, cols, 2, *out)
    factors = np.ones(moves[:, :, :, :, 0].shape) if mask is None else mask
    factors = factors.reshape(deform.batch, deform.offset_groups, rows, cols, *out)
    filters = weight.reshape(deform.groups, -1, *weight.shape[1:]).astype("float64")
    total = np.zeros((deform.batch, *filters.shape[:2], *out))
    for kh, kw in np.ndindex(rows, cols):
        ys = _places(out[0], 0, kh, deform, moves.dtype)[:, None] + moves[:, :, kh, kw, 0]
        xs = _places(out[1], 1, kw, deform, moves.dtype) + moves[:, :, kh, kw, 1]
        values = _sampled(data.astype("float64"), ys, xs) * factors[:, :, kh, kw, None]
        grouped = values.reshape(deform.batch, deform.groups, -1, *out)
        total += np.einsum("ngchw,gkc->ngkhw", grouped, filters[..., kh, kw])
    return total.reshape(deform.out_shape).astype(deform.types.output)


def _places(count: int, axis: int, tap: int, deform: DeformConvWorkload, dtype: Any) -> Array:
    """Where the tap lies along an axis without offsets, for every output pixel."""
    start = tap * deform.dilation[axis] - deform.padding[axis]
    return (np.arange(count) * deform.stride[axis] + start).astype(dtype)


def _sampled(data: Array, ys: Array, xs: Array) -> Array:
    """(N, C, H, W) at (N, G, OH, OW) places -> (N, G, C/G, OH, OW), bilinear.

    A pixel outside the image counts as zero, also where a place is less than one pixel outside.
    """
    batch, groups = ys.shape[:2]
    grouped = data.reshape(batch, groups, -1, *data.shape[2:])
    total = np.zeros((*grouped.shape[:3], *ys.shape[2:]))
    for down, right in np.ndindex(2, 2):
        row, col = np.floor(ys) + down, np.floor(xs) + right
        with np.errstate(invalid="ignore"):  # an infinite place has no share
            share = (1 - np.abs(ys - row)) * (1 - np.abs(xs - col))
        inside = (row >= 0) & (row < data.shape[2]) & (col >= 0) & (col < data.shape[3])
        for n, g in np.ndindex(batch, groups):
            at = np.where(inside[n, g], row[n, g], 0), np.where(inside[n, g], col[n, g], 0)
            pixel = grouped[n, g][:, at[0].astype(int), at[1].astype(int)]
            total[n, g] += pixel * np.where(inside[n, g], share[n, g], 0)
    return total
