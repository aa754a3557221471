"""The images of a volume that a kernel reads: one tap's, or all of them side by side."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import dtype_of, static_shape
from tvm_neocpu.relay_passes.layouts.depth_windows import side_by_side
from tvm_neocpu.relay_passes.layouts.slices import Range, slice_of
from tvm_neocpu.relay_passes.planar.view import Views
from tvm_neocpu.topi.image.depth import OUTSIDE, Depth


def shifted(
    views: Views,
    data: relax.Expr,
    depth: Depth,
    tap: int,
    channels: Range | None = None,
    outside: float = 0.0,
) -> relax.Expr:
    """The images that a tap reads, one for each output; ``outside`` where there is none.

    With several volumes the depth is an axis of its own meanwhile.
    """
    emit, shape = views.scope.emit, static_shape(data)
    first, end, before, after = depth.window(tap)
    alone = depth.batch == 1
    axis = 0 if alone else 1
    if not alone:
        data = emit(relax.op.reshape(data, (depth.batch, depth.extent, *shape[1:])))
    ranges = []
    if channels is not None:
        ranges.append(Range(channels.axis + axis, channels.begin, channels.end))
    if (first, end, depth.stride) != (0, depth.extent, 1):
        ranges.append(Range(axis, first, end, depth.stride))
    cut = slice_of(data, ranges) if ranges else data
    if before or after:
        widths = [0] * 2 * axis + [before, after] + [0] * 6
        cut = relax.op.nn.pad(emit(cut), widths, "constant", outside)
    if alone:
        return cut
    cut = emit(cut)
    return relax.op.reshape(cut, (depth.batch * depth.outputs, *static_shape(cut)[2:]))


def windows(views: Views, data: relax.Expr, depth: Depth, in_memory: bool) -> relax.Expr:
    """The images that each output reads, as one of more channels.

    ``in_memory``: store the volume with images of zeros around it; else the kernel tests for them.
    """
    emit = views.scope.emit
    if depth.is_each_image:
        return data
    if (depth.images() == OUTSIDE).all():
        _, channels, *pixels = static_shape(data)
        shape = (depth.batch * depth.outputs, depth.taps * channels, *pixels)
        return emit(relax.op.zeros(shape, dtype_of(data)))
    if not in_memory or not depth.reads_zeros:
        return emit(side_by_side(emit, data, depth))
    before, after = depth.before, depth.after
    # One image behind the others would be taken for that of a gather, which kernels test for.
    after += (before, after) == (0, 1)
    extent = before + depth.extent + after
    if depth.batch == 1:
        axes = len(static_shape(data)) - 1
        whole = emit(relax.op.nn.pad(data, [before, after, *[0] * 2 * axes]))
    else:
        around = Depth(depth.batch, depth.extent, extent, 1, before=before)
        whole = emit(side_by_side(emit, data, around))
    inside = Depth(depth.batch, extent, depth.outputs, depth.taps, depth.stride, depth.dilation)
    return emit(side_by_side(emit, whole, inside))
