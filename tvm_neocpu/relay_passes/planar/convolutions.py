"""Convolutions over sequences and volumes as convolutions over images.

A sequence is an image of one row. A volume is a batch of images, one for each depth, and taps along
the depth are either channels of the output or channels of the input::

    taps of the output, stride 1:     p = conv2d(x, all taps)      # (N * D, T * K, H, W)
                                      y[d] = p[d - 1, tap 0] + p[d, tap 1] + p[d + 1, tap 2]
    taps of the input:                p = concat(x[d - 1], x[d], x[d + 1])   # T * C channels
                                      y = conv2d(p, W)
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
from tvm_neocpu.relay_passes.planar.depth import Depth, shifted
from tvm_neocpu.relay_passes.planar.view import Views

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
    attrs, weight = call.attrs, array_of(call.args[1])
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCDHW", "OIDHW"):
        return None
    if weight is None or dtype_of(call) not in FOLDED or static_shape(call) is None:
        return None
    shape = static_shape(call.args[0])
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
    emit = views.scope.emit
    if taps == 1 or int(attrs.groups) > 1 or _prefers_input_taps(call, stride):
        return _with_input_taps(views, data, weight, depth, images, int(attrs.groups))
    # (K, C, T, R, S) -> (T * K, C, R, S)
    by_tap = weight.transpose(2, 0, 1, 3, 4).reshape(-1, *weight.shape[1:2], *weight.shape[3:])
    products = emit(images(data, constant_of(by_tap, dtype_of(call))))
    filters = weight.shape[0]
    parts = [
        shifted(views, products, depth, tap, Range(1, tap * filters, (tap + 1) * filters))
        for tap in range(taps)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = relax.op.add(emit(total), emit(part))
    return total


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


def _prefers_input_taps(call: relax.Call, stride: int) -> bool:
    """Whether the copies of the input are smaller than the sums that taps of the output leave.

    A stride along the depth would leave out most of what taps of the output compute.
    """
    before, after = static_shape(call.args[0]), static_shape(call)
    assert before is not None and after is not None
    (_, channels, _, *image), (_, filters, _, *out) = before, after
    return stride > 1 or channels * prod(image) < 0.5 * filters * prod(out)


def _with_input_taps(
    views: Views, data: relax.Expr, weight: Array, depth: Depth, images: Images, groups: int
) -> relax.Expr:
    """Groups would be torn apart by a concat: each tap is a convolution of its own then."""
    emit = views.scope.emit
    parts = [emit(shifted(views, data, depth, tap)) for tap in range(depth.taps)]
    filters, channels, taps, *kernel = weight.shape
    if groups == 1:
        whole = parts[0] if taps == 1 else emit(relax.op.concat(parts, axis=1))
        by_tap = weight.transpose(0, 2, 1, 3, 4).reshape(filters, taps * channels, *kernel)
        return images(whole, constant_of(by_tap, dtype_of(data)))
    sums = [
        emit(images(part, constant_of(weight[:, :, tap], dtype_of(data))))
        for tap, part in enumerate(parts)
    ]
    return functools.reduce(lambda one, other: emit(relax.op.add(one, other)), sums)
