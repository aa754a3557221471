"""Transposed convolutions over volumes as transposed convolutions over images.

Each image gives one result for each tap along the depth. With a stride of 2 the outputs of even
depth are sums of some taps' results, those of odd depth of the others::

    p = conv2d_transpose(x, all taps)          # (N * D, T * K, OH, OW)
    even[q] = p[q, tap 1]                      # 3 taps, stride 2, padding 1
    odd[q] = p[q, tap 2] + p[q + 1, tap 0]
    y = even[0], odd[0], even[1], odd[1], ...
"""

from __future__ import annotations

import functools
from math import ceil

from tvm import relax

from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, static_shape
from tvm_neocpu.relay_passes.layouts.slices import Range, slice_of
from tvm_neocpu.relay_passes.planar.depth import shifted
from tvm_neocpu.relay_passes.planar.view import Views
from tvm_neocpu.topi.image.depth import Depth


def conv3d_transpose(views: Views, call: relax.Call) -> relax.Expr | None:
    """``(N, C, D, H, W) * (C, K / groups, T, R, S) -> (N * OD, K, OH, OW)``, W constant."""
    attrs, weight = call.attrs, array_of(call.args[1])
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCDHW", "IODHW"):
        return None
    before, after = static_shape(call.args[0]), static_shape(call)
    if weight is None or dtype_of(call) not in FOLDED or before is None or after is None:
        return None
    data = views.map_of(call.args[0])
    if data is None:
        return None
    products = _products(views, data, weight, call)
    stride, dilation, front = (ints(a)[0] for a in (attrs.strides, attrs.dilation, attrs.padding))
    outputs = ceil(after[2] / stride)
    phases = []
    for phase in range(stride):
        parts = []
        for tap, (product, channels) in enumerate(products):
            ahead, rest = divmod(phase + front - tap * dilation, stride)
            if rest == 0:
                depth = Depth(before[0], before[2], outputs, 1, 1, 1, -ahead)
                parts.append(views.scope.emit(shifted(views, product, depth, 0, channels)))
        phases.append(_sum(views, parts, (before[0] * outputs, after[1], *after[3:]), call))
    return _interleaved(views, phases, before[0], after[2])


def _products(
    views: Views, data: relax.Expr, weight: Array, call: relax.Call
) -> list[tuple[relax.Expr, Range | None]]:
    """For each tap the tensor and its channels that hold every image's product with the tap.

    One convolution for all taps; with groups, whose channels must stay together, one for each.
    """
    attrs = call.attrs
    _, top, left, _, bottom, right = ints(attrs.padding)
    images = functools.partial(
        relax.op.nn.conv2d_transpose,
        strides=ints(attrs.strides)[1:],
        padding=[top, left, bottom, right],
        output_padding=ints(attrs.output_padding)[1:],
        dilation=ints(attrs.dilation)[1:],
        groups=int(attrs.groups),
    )

    def product(kernel: Array) -> relax.Expr:
        return views.scope.emit(images(data, constant_of(kernel, dtype_of(call))))

    channels, filters, taps, *image = weight.shape
    if int(attrs.groups) > 1:
        return [(product(weight[:, :, tap]), None) for tap in range(taps)]
    whole = product(weight.swapaxes(1, 2).reshape(channels, taps * filters, *image))
    return [(whole, Range(1, tap * filters, (tap + 1) * filters)) for tap in range(taps)]


def _sum(
    views: Views, parts: list[relax.Expr], shape: tuple[int, ...], call: relax.Call
) -> relax.Expr:
    """The sum of what the taps of a phase give; zeros where a phase has no tap."""
    if not parts:
        return views.scope.emit(relax.op.zeros(shape, dtype_of(call)))
    return views.scope.combine(relax.op.add, parts)


def _interleaved(views: Views, phases: list[relax.Expr], batch: int, outputs: int) -> relax.Expr:
    """Images of the first phase, the second..., in turns; the last ones may not be wanted."""
    emit, (images, *image) = views.scope.emit, static_shape(phases[0])
    if len(phases) == 1:
        return phases[0]
    apart = [emit(relax.op.reshape(phase, (images, 1, *image))) for phase in phases]
    whole = emit(relax.op.concat(apart, axis=1))
    depth = images // batch * len(phases)
    if depth > outputs:
        whole = emit(relax.op.reshape(whole, (batch, depth, *image)))
        whole = emit(slice_of(whole, [Range(1, 0, outputs)]))
    return relax.op.reshape(whole, (batch * outputs, *image))


__all__ = ["conv3d_transpose"]
