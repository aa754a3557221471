"""Convolutions whose weight is computed, as matrix products over columns.

y = conv2d(x, w)     ->     c = concat of pad(x), shifted for each tap    # (N, C * R * S, OH * OW)
                            y = matmul(reshape(w, (K, C * R * S)), c)
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class ComputedFilters:
    """Each conv2d of static shape without a constant weight becomes a ``matmul``.

    Convolutions of few filters or channels a group (depthwise) stay: copying their columns would
    cost more than the general schedule does. Those of one tap and one group copy none.

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
    if (weight[0] // groups < MIN_FILTERS and not has_one_tap) or weight[1] < MIN_CHANNELS:
        return None
    batch, filters, height, width = out
    taps = weight[1] * weight[2] * weight[3]
    columns = _columns(scope, call, weight, (height, width))
    grouped = scope.emit(relax.op.reshape(columns, (batch, groups, taps, height * width)))
    kernel = scope.emit(relax.op.reshape(call.args[1], (groups, filters // groups, taps)))
    return relax.op.reshape(scope.emit(relax.op.matmul(kernel, grouped)), out)


def _columns(
    scope: Scope, call: relax.Call, weight: tuple[int, ...], out: tuple[int, int]
) -> relax.Expr:
    """(N, C, R * S, OH, OW); the data itself for a kernel of one tap that reads all of them."""
    attrs, data = call.attrs, call.args[0]
    top, left, bottom, right = (int(width) for width in attrs.padding)
    if top or left or bottom or right:
        data = scope.emit(relax.op.nn.pad(data, [0, 0, 0, 0, top, bottom, left, right]))
    # One axis for the taps, which the slices have already: the concat reads them where they lie.
    data = scope.emit(relax.op.expand_dims(data, 2))
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
