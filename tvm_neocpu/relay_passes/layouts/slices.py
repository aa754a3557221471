"""Slices with constant bounds: the range of each axis, and the same slice of a blocked tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import integers_of, op_name, static_shape

CHANNELS = 1


@dataclass(frozen=True)
class Range:
    """``range(begin, end, stride)`` of an axis; bounds inside the axis, stride positive."""

    axis: int
    begin: int
    end: int
    stride: int = 1


def read_slice(call: relax.Expr) -> tuple[Range, ...] | None:
    """The ranges that a strided_slice of a static tensor keeps; ``None`` if it is no such slice."""
    if op_name(call) != "relax.strided_slice":
        return None
    shape, result = static_shape(call.args[0]), static_shape(call)
    fields = [integers_of(arg) for arg in call.args[1:]]
    if shape is None or result is None or not all(fields):
        return None
    axes, begins, ends, *strides = fields
    by_axis = strides[0] if strides else (1,) * len(axes)
    if min(by_axis) < 1:
        return None
    ranges = tuple(
        _clipped(axis % len(shape), begin, end, stride, shape[axis])
        for axis, begin, end, stride in zip(axes, begins, ends, by_axis, strict=True)
    )
    kept = {r.axis: len(range(r.begin, r.end, r.stride)) for r in ranges}
    expected = tuple(kept.get(axis, extent) for axis, extent in enumerate(shape))
    return ranges if expected == result and len(kept) == len(ranges) else None


def channel_range(ranges: Sequence[Range]) -> Range | None:
    """The range of the channels; ``None`` if a slice does not cut that axis."""
    return next((r for r in ranges if r.axis == CHANNELS), None)


def slice_of(data: relax.Expr, ranges: Sequence[Range]) -> relax.Expr:
    """A strided_slice call; not yet emitted."""
    return relax.op.strided_slice(
        data,
        [r.axis for r in ranges],
        [r.begin for r in ranges],
        [r.end for r in ranges],
        [r.stride for r in ranges],
    )


def cropped(whole: relax.Expr, begin: tuple[int, ...], wanted: tuple[int, ...]) -> relax.Expr:
    """The image's pixels from ``begin`` on, as many rows and columns as are wanted."""
    extents = static_shape(whole)[2:]
    ranges = [
        Range(2 + axis, begin[axis], begin[axis] + wanted[axis])
        for axis in (0, 1)
        if wanted[axis] != extents[axis]
    ]
    return slice_of(whole, ranges) if ranges else whole


def blocked_slice(call: relax.Call, data: relax.Expr, layout: Layout) -> relax.Expr:
    """The slice of a tensor stored in ``layout``; its block divides the bounds of the channels."""
    ranges = read_slice(call)
    assert ranges is not None
    block = max(layout.block, 1)
    return slice_of(data, [_in_blocks(r, block) if r.axis == CHANNELS else r for r in ranges])


def _in_blocks(channels: Range, block: int) -> Range:
    return Range(CHANNELS, channels.begin // block, channels.end // block)


def _clipped(axis: int, begin: int, end: int, stride: int, extent: int) -> Range:
    begin, end, stride = slice(begin, end, stride).indices(extent)
    return Range(axis, begin, max(begin, end), stride)
