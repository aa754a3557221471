"""Convolutions over sequences and volumes as convolutions over images.

A sequence is an image of one row. A volume is a batch of images, one for each depth. The images
that the taps along the depth read are one image of more channels, which a template finds where they
are. With few filters, or where fp32's Winograd would transform many channels once for each tap, the
filters of all taps run over each image. With groups each tap is a convolution of its own::

    windows:     w[d] = x[d - 1], x[d], x[d + 1]     # (N * OD, T * C, H, W)
                 y = conv2d(w, W)
    sums:        p = conv2d(x, all taps)             # (N * D, T * K, H, W)
                 y[d] = p[d - 1, tap 0] + p[d, tap 1] + p[d + 1, tap 2]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod

import numpy as np
from tvm import relax

from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, static_shape
from tvm_neocpu.relay_passes.layouts.slices import Range, slice_of
from tvm_neocpu.relay_passes.operators.new.depth_rows import depth_rows
from tvm_neocpu.relay_passes.planar.depth import shifted, windows
from tvm_neocpu.relay_passes.planar.filters import Filters, read_filters
from tvm_neocpu.relay_passes.planar.view import Views
from tvm_neocpu.topi.image.depth import OUTSIDE, Depth

# Floats of the widest vector: filters of all taps that fit it take as long as those of one tap.
ONE_VECTOR = 16
# From so many overlapping pixels of tiles on, times channels over filters, sums are faster.
MOST_TRANSFORMS = 8
# conv2d over (data, weight), its window given.
Images = Callable[[relax.Expr, relax.Expr], relax.Expr]


def conv1d(views: Views, call: relax.Call) -> relax.Expr | None:
    """``(N, C, W) * (K, C / groups, S) -> (N, K, 1, OW)``; the weight may be computed."""
    attrs = call.attrs
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCW", "OIW"):
        return None
    data, shape = views.map_of(call.args[0]), static_shape(call.args[1])
    if data is None or shape is None or static_shape(call) is None:
        return None
    before, after = ints(attrs.padding)
    return relax.op.nn.conv2d(
        data,
        _row_kernel(views, call.args[1], shape),
        strides=[1, *ints(attrs.strides)],
        padding=[0, before, 0, after],
        dilation=[1, *ints(attrs.dilation)],
        groups=int(attrs.groups),
    )


def _row_kernel(views: Views, weight: relax.Expr, shape: tuple[int, ...]) -> relax.Expr:
    array = array_of(weight)
    if array is not None:
        return constant_of(np.expand_dims(array, 2), dtype_of(weight))
    return views.scope.emit(relax.op.reshape(weight, (*shape[:2], 1, shape[2])))


def conv3d(views: Views, call: relax.Call) -> relax.Expr | None:
    """``(N, C, D, H, W) * (K, C / groups, T, R, S) -> (N * OD, K, OH, OW)``, W constant."""
    attrs, filters = call.attrs, read_filters(views, call.args[1])
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCDHW", "OIDHW"):
        return None
    if filters is None or dtype_of(call) not in FOLDED or static_shape(call) is None:
        return None
    shape, weight = static_shape(call.args[0]), filters.array
    if shape is None:
        return None
    strides, padding = ints(attrs.strides), ints(attrs.padding)
    source = call.args[0]
    if not any(padding) and weight[0, 0].size == 1 and not views.has(source):
        # What strides leave out is not worth a transpose.
        source = _thinned(views, source, strides)
        shape, strides = static_shape(source), [1, 1, 1]
    data = views.map_of(source)
    if data is None or shape is None:
        return None
    front, top, left, _, bottom, right = padding
    (stride, *strides), (dilation, *dilations) = strides, ints(attrs.dilation)
    images = functools.partial(
        relax.op.nn.conv2d,
        strides=strides,
        padding=[top, left, bottom, right],
        dilation=dilations,
        groups=int(attrs.groups),
    )
    taps = weight.shape[2]
    depth = Depth(shape[0], shape[2], static_shape(call)[2], taps, stride, dilation, front)
    if int(attrs.groups) > 1:
        if int(attrs.groups) == static_shape(data)[1] and _fits_rows(filters, depth, dilations[0]):
            return _rows_of_images(views, data, filters, depth, call)
        return _tap_by_tap(views, data, filters, depth, images)
    if filters.coded is None and _adds_up(views, weight, stride):
        return _sums_of_taps(views, data, weight, depth, images)
    # (K, C, T, R, S) -> (K, T * C, R, S)
    stacked = weight.swapaxes(1, 2).reshape(len(weight), -1, *weight.shape[3:])
    # Products of bf16 read words, which a kernel without a border has no copy of.
    in_memory = views.rounded and not any((top, left, bottom, right))
    whole = windows(views, data, depth, in_memory)
    return images(whole, filters.weight(views, stacked))


def _adds_up(views: Views, weight: Array, stride: int) -> bool:
    """Whether the filters of all taps run over each image, and their sums are added up.

    A stride would leave most of the sums out. fp32's Winograd transforms an image for each tap that
    reads it: with many channels, or tiles that overlap much, that takes longer than to store sums
    (Emerald Rapids, one thread, speed of networks with windows over that with sums: 64 channels and
    filters 1.08, 16 and 16 1.28, 128 and 32 0.83, 32 and 32 of 5x5x5 0.80).
    """
    filters, channels, taps, *kernel = weight.shape
    if taps == 1 or stride > 1:
        return False
    overlap = prod(extent - 1 for extent in kernel if extent > 1) if max(kernel) > 1 else 0
    transforms = not views.rounded and channels * overlap > MOST_TRANSFORMS * filters
    return taps * filters <= ONE_VECTOR or transforms


def _thinned(views: Views, volume: relax.Expr, strides: list[int]) -> relax.Expr:
    """The places of a volume that a kernel of one tap reads."""
    extents = static_shape(volume)
    assert extents is not None
    ranges = [
        Range(2 + axis, 0, extents[2 + axis], stride)
        for axis, stride in enumerate(strides)
        if stride > 1
    ]
    return views.scope.emit(slice_of(volume, ranges)) if ranges else volume


def _sums_of_taps(
    views: Views, data: relax.Expr, weight: Array, depth: Depth, images: Images
) -> relax.Expr:
    """One convolution for the filters of all taps, whose results are shifted and added up."""
    emit, filters = views.scope.emit, len(weight)
    # (K, C, T, R, S) -> (T * K, C, R, S)
    by_tap = weight.transpose(2, 0, 1, 3, 4).reshape(-1, *weight.shape[1:2], *weight.shape[3:])
    products = emit(images(data, constant_of(by_tap, dtype_of(data))))
    parts = [
        emit(shifted(views, products, depth, tap, Range(1, tap * filters, (tap + 1) * filters)))
        for tap in range(depth.taps)
    ]
    return views.scope.combine(relax.op.add, parts)


def _fits_rows(filters: Filters, depth: Depth, dilation: int) -> bool:
    """Whether a depthwise kernel's taps along the depth may be rows.

    Its own rows must not be dilated, and some image must lie inside of the volume. With integers Q
    and DQ would have to pass the rows.
    """
    is_outside = bool((depth.images() == OUTSIDE).all())
    in_a_row = dilation == 1 or filters.array.shape[3] == 1
    return filters.coded is None and depth.taps > 1 and in_a_row and not is_outside


def _rows_of_images(
    views: Views, data: relax.Expr, filters: Filters, depth: Depth, call: relax.Call
) -> relax.Expr:
    """A depthwise kernel of T x R rows over the rows of all images that it reads."""
    attrs, taps = call.attrs, depth.taps
    (_, *strides), (_, _, dilation) = ints(attrs.strides), ints(attrs.dilation)
    _, top, left, _, bottom, right = ints(attrs.padding)
    # (K, 1, T, R, S) -> (K, 1, R * T, S)
    turned = filters.array.swapaxes(2, 3)
    kernel = turned.reshape(*turned.shape[:2], -1, turned.shape[-1])
    return relax.op.nn.conv2d(
        views.scope.emit(depth_rows(data, depth)),
        filters.weight(views, kernel),
        strides=[strides[0] * taps, strides[1]],
        padding=[top * taps, left, bottom * taps, right],
        dilation=[1, dilation],
        groups=int(attrs.groups),
    )


def _tap_by_tap(
    views: Views, data: relax.Expr, filters: Filters, depth: Depth, images: Images
) -> relax.Expr:
    """With groups, which windows would tear apart: each tap is a convolution of its own."""
    emit = views.scope.emit
    sums = [
        emit(
            images(
                emit(shifted(views, data, depth, tap)),
                filters.weight(views, filters.array[:, :, tap]),
            )
        )
        for tap in range(depth.taps)
    ]
    return views.scope.combine(relax.op.add, sums)
