"""Convolutions whose weight is computed, as matrix products over columns.

y = conv2d(x, w)     ->     c = concat of pad(x), shifted for each tap    # (N, C * R * S, OH * OW)
                            y = matmul(reshape(w, (K, C * R * S)), c)

Few filters (a tracker's one filter is another image) make no columns: they would be copied for a
product that holds too little in registers. Their taps are the filters of a product over the image,
and shifted sums follow, over rows and then over columns::

    p = matmul(reshape(w, (K * R * S, C)), pad(x))       # (N, K, R, S, H, W)
    y[n, k, i, j] = sum over r, s of p[n, k, r, s, i + r, j + s]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.relay_passes.ir.exprs import call_of, dtype_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.slices import Range, slice_of

# With fewer filters a group, or channels of one, a product has nothing to hold in registers.
MIN_FILTERS, MIN_CHANNELS = 4, 2
# Few filters: products of pixels that no output reads, for each that one reads; float32 elements
# that the products may take (16 MiB).
MAX_PIXELS, MAX_PRODUCTS = 4, 2**22


@dataclass(frozen=True)
class ComputedFilters:
    """Each conv2d of static shape without a constant weight becomes a ``matmul``.

    Convolutions of few filters or channels a group stay (depthwise): copying their columns would
    cost more than the general schedule does. Those of one group do not need them.

    Needs: constants are folded; padding is in the convolutions.
    Leaves: ``matmul`` calls that no dense layer matches.
    """

    name: ClassVar[str] = "computed-filters"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    call = call_of(value, "relax.nn.conv2d")
    if call is None or isinstance(scope.resolve(call.args[1]), GenericConst):
        return None
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    shapes = [static_shape(each) for each in (*call.args, call)]
    data, weight, out = shapes
    if layouts != ("NCHW", "OIHW", "NCHW") or data is None or weight is None or out is None:
        return None
    types = {dtype_of(each) for each in (*call.args, call)}
    groups = int(attrs.groups)
    if len(types) > 1 or not types < {*FOLDED} or 0 in out:
        return None
    has_one_tap = groups == 1 and weight[2:] == (1, 1)  # no columns are copied
    if weight[1] < MIN_CHANNELS:
        return None
    if weight[0] // groups < MIN_FILTERS and not has_one_tap:
        return _by_taps(scope, call, weight, out) if groups == 1 else None
    batch, filters, height, width = out
    taps = weight[1] * weight[2] * weight[3]
    columns = _columns(scope, call, weight, (height, width))
    grouped = scope.emit(relax.op.reshape(columns, (batch, groups, taps, height * width)))
    kernel = scope.emit(relax.op.reshape(call.args[1], (groups, filters // groups, taps)))
    return relax.op.reshape(scope.emit(relax.op.matmul(kernel, grouped)), out)


def _by_taps(
    scope: Scope, call: relax.Call, weight: tuple[int, ...], out: tuple[int, ...]
) -> relax.Expr | None:
    """Products of all taps and pixels, then their shifted sums; ``None`` where that is too much."""
    shape = static_shape(call.args[0])
    assert shape is not None
    batch, channels = shape[:2]
    top, left, bottom, right = (int(width) for width in call.attrs.padding)
    height, width = shape[2] + top + bottom, shape[3] + left + right
    filters, _, rows, columns = weight
    products = (batch * filters, rows, columns, height, width)
    if height * width > MAX_PIXELS * out[2] * out[3] or prod(products) > MAX_PRODUCTS:
        return None
    data = scope.emit(relax.op.reshape(_padded(scope, call), (batch, 1, channels, height * width)))
    by_tap = scope.emit(relax.op.permute_dims(call.args[1], (0, 2, 3, 1)))
    kernel = scope.emit(relax.op.reshape(by_tap, (1, filters * rows * columns, channels)))
    value = scope.emit(relax.op.matmul(kernel, data))
    value = scope.emit(relax.op.reshape(value, products))
    for axis, count in enumerate((rows, columns)):
        value = _shifted_sum(scope, value, call, axis, count, out[2 + axis])
    return relax.op.reshape(value, out)


def _shifted_sum(
    scope: Scope, products: relax.Expr, call: relax.Call, axis: int, count: int, extent: int
) -> relax.Expr:
    """Over an axis' taps, each of which reads its own pixels: ``(.., 1, .., extent, ..)``."""
    taps, pixels = 1 + axis, 3 + axis
    stride, dilation = int(call.attrs.strides[axis]), int(call.attrs.dilation[axis])
    total: relax.Expr | None = None
    for tap in range(count):
        begin = tap * dilation
        ranges = [
            Range(taps, tap, tap + 1, 1),
            Range(pixels, begin, begin + (extent - 1) * stride + 1, stride),
        ]
        term = scope.emit(slice_of(products, ranges))
        total = term if total is None else scope.emit(relax.op.add(total, term))
    assert total is not None
    return total


def _padded(scope: Scope, call: relax.Call) -> relax.Expr:
    top, left, bottom, right = (int(width) for width in call.attrs.padding)
    data = call.args[0]
    if not (top or left or bottom or right):
        return data
    return scope.emit(relax.op.nn.pad(data, [0, 0, 0, 0, top, bottom, left, right]))


def _columns(
    scope: Scope, call: relax.Call, weight: tuple[int, ...], out: tuple[int, int]
) -> relax.Expr:
    """(N, C, R * S, OH, OW); the data itself for a kernel of one tap that reads all of them."""
    # One axis for the taps, which the slices have already: the concat reads them where they lie.
    data = scope.emit(relax.op.expand_dims(_padded(scope, call), 2))
    taps = [
        _read_by(scope, data, call, tap, out)
        for tap in ((row, column) for row in range(weight[2]) for column in range(weight[3]))
    ]
    return taps[0] if len(taps) == 1 else scope.emit(relax.op.concat(taps, axis=2))


def _read_by(
    scope: Scope, data: relax.Expr, call: relax.Call, tap: tuple[int, int], out: tuple[int, int]
) -> relax.Expr:
    """The pixels of (N, C, 1, H, W) that one tap reads, one for each output."""
    extents = static_shape(data)
    assert extents is not None
    ranges = []
    for axis in (0, 1):
        stride, begin = int(call.attrs.strides[axis]), tap[axis] * int(call.attrs.dilation[axis])
        end = begin + (out[axis] - 1) * stride + 1
        if (begin, end, stride) != (0, extents[3 + axis], 1):
            ranges.append(Range(3 + axis, begin, end, stride))
    return scope.emit(slice_of(data, ranges)) if ranges else data
