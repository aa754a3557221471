"""The axis of depth of a volume that is a batch of images: which images a tap of a kernel reads."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.layouts.slices import Range, slice_of
from tvm_neocpu.relay_passes.planar.view import Views


@dataclass(frozen=True)
class Depth:
    """The axis of depth: ``taps`` of a kernel over ``extent`` images give ``outputs``."""

    batch: int
    extent: int
    outputs: int
    taps: int
    stride: int
    dilation: int
    before: int

    @property
    def is_each_image(self) -> bool:
        """Whether each output reads the image in its place, and nothing else."""
        return self.taps == 1 and self.window(0) == (0, self.extent, 0, 0) and self.stride == 1

    def window(self, tap: int) -> tuple[int, int, int, int]:
        """(first image, last image + 1, outputs before it, outputs after it) that a tap reads."""
        places = [
            out * self.stride + tap * self.dilation - self.before for out in range(self.outputs)
        ]
        inside = [place for place in places if 0 <= place < self.extent]
        if not inside:
            return 0, 0, self.outputs, 0
        lower = sum(place < 0 for place in places)
        return inside[0], inside[-1] + 1, lower, len(places) - lower - len(inside)


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
