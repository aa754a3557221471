"""Slices with bounds that are known: what they keep of each axis, and the same in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from tvm_neocpu.core.layout import Layout
from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape

CHANNELS = 1


@dataclass(frozen=True)
class Range:
    """``range(begin, end, step)`` of an axis, bounds inside the axis, step positive."""

    axis: int
    begin: int
    end: int
    step: int = 1


def read_slice(call: relax.Expr) -> tuple[Range, ...] | None:
    """What a strided_slice of a static tensor keeps, per axis; ``None`` for anything else."""
    if op_name(call) != "relax.strided_slice":
        return None
    shape, result = static_shape(call.args[0]), static_shape(call)
    fields = [_integers(arg) for arg in call.args[1:]]
    if shape is None or result is None or not all(fields):
        return None
    axes, begins, ends, *strides = fields
    steps = strides[0] if strides else (1,) * len(axes)
    if min(steps) < 1:
        return None
    ranges = tuple(
        _clipped(axis % len(shape), begin, end, step, shape[axis])
        for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True)
    )
    kept = {r.axis: len(range(r.begin, r.end, r.step)) for r in ranges}
    expected = tuple(kept.get(axis, extent) for axis, extent in enumerate(shape))
    return ranges if expected == result and len(kept) == len(ranges) else None


def channel_range(ranges: Sequence[Range]) -> Range | None:
    """The range of the channels, where a slice takes a part of them."""
    return next((r for r in ranges if r.axis == CHANNELS), None)


def slice_of(data: relax.Expr, ranges: Sequence[Range]) -> relax.Expr:
    """A strided_slice call; not yet emitted."""
    return relax.op.strided_slice(
        data,
        [r.axis for r in ranges],
        [r.begin for r in ranges],
        [r.end for r in ranges],
        [r.step for r in ranges],
    )


def blocked_slice(call: relax.Call, data: relax.Expr, layout: Layout) -> relax.Expr:
    """The slice of a tensor stored in ``layout``, whose block divides the channels' bounds."""
    ranges = read_slice(call)
    assert ranges is not None
    block = max(layout.block, 1)
    return slice_of(data, [_in_blocks(r, block) if r.axis == CHANNELS else r for r in ranges])


def _in_blocks(channels: Range, block: int) -> Range:
    return Range(CHANNELS, channels.begin // block, channels.end // block)


def _clipped(axis: int, begin: int, end: int, step: int, extent: int) -> Range:
    begin, end, step = slice(begin, end, step).indices(extent)
    return Range(axis, begin, max(begin, end), step)


def _integers(arg: relax.Expr) -> tuple[int, ...]:
    """The integers of a tuple of known ones; empty otherwise."""
    fields = list(arg) if isinstance(arg, relax.Tuple) else []
    values = [getattr(field, "value", None) for field in fields]
    if not all(isinstance(value, int) for value in values):
        return ()
    return tuple(values)
