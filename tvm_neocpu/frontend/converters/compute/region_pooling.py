"""RoiAlign's loops: each bin of each region takes samples between the pixels.

for roi, channel, y, x:  samples (grid_h x grid_w) inside the bin, each of four pixels

The grid depends on the size of the region unless a sampling ratio is given, so that no tensor
expression says it. Channels innermost, with the places of a sample computed once for all of them,
was tried and is slower, because each channel's pixels lie in other cache lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.known import Extent
from tvm_neocpu.frontend.converters.node import Node


@dataclass(frozen=True)
class Regions:
    """How a region of an image becomes ``height x width`` bins.

    ``ratio`` samples along each axis of a bin, or one for each pixel of it where it is 0.
    ``half_pixel`` moves regions by half a pixel and keeps those that are smaller than one.
    """

    height: int
    width: int
    ratio: int
    scale: float
    half_pixel: bool
    largest: bool


def align_regions(
    node: Node,
    image: tuple[relax.Expr, relax.Expr, relax.Expr],
    counts: tuple[Extent, int, int, int],
    regions: Regions,
) -> relax.Var:
    """``(regions, channels, height, width)`` of data, regions and the place of each one's image.

    ``counts`` are regions, channels and the extents of an image.
    """
    number, channels, high, wide = counts
    dtype = str(image[0].ty.dtype)

    def body(data, rois, images, out) -> None:  # type: ignore[no-untyped-def]
        with T.parallel(0, number) as n, T.serial(0, channels) as c:
            base = (tirx.Cast("int64", images[n]) * channels + c) * (high * wide)
            with T.serial(0, regions.height) as y, T.serial(0, regions.width) as x:
                at = ((n * channels + c) * regions.height + y) * regions.width + x
                rows = _axis(rois, n, 1, y, regions.height, regions, dtype)
                columns = _axis(rois, n, 0, x, regions.width, regions, dtype)
                out[at] = tirx.const(0, dtype)
                with T.serial(0, rows.samples) as i, T.serial(0, columns.samples) as j:
                    parts = _sample(data, base, rows.at(i), columns.at(j), (high, wide), dtype)
                    if regions.largest:
                        value = tirx.max(tirx.max(parts[0], parts[1]), tirx.max(parts[2], parts[3]))
                        is_first = tirx.all(i == 0, j == 0)
                        out[at] = tirx.Select(is_first, value, tirx.max(out[at], value))
                    else:
                        out[at] = out[at] + (parts[0] + parts[1] + parts[2] + parts[3])
                if not regions.largest:
                    count = tirx.max(rows.samples * columns.samples, T.int32(1))
                    out[at] = out[at] / tirx.Cast(dtype, count)

    shape = (number, channels, regions.height, regions.width)
    return emit_loops(node, "roi_align", image, [(shape, dtype)], body)[0]


@dataclass(frozen=True)
class _Axis:
    """The samples of one bin along one axis."""

    start: tirx.Expr
    size: tirx.Expr
    samples: tirx.Expr
    dtype: str

    def at(self, sample: tirx.Expr) -> tirx.Expr:
        dtype = self.dtype
        half = tirx.const(0.5, dtype)
        step = (tirx.Cast(dtype, sample) + half) * self.size / tirx.Cast(dtype, self.samples)
        return self.start + step


def _axis(
    rois: T.Buffer,
    n: tirx.Expr,
    part: int,
    place: tirx.Expr,
    bins: int,
    regions: Regions,
    dtype: str,
) -> _Axis:
    """Bin ``place`` of region ``n``; ``part`` 0 is x, 1 is y."""
    scale = tirx.const(regions.scale, dtype)
    shift = tirx.const(0.5 if regions.half_pixel else 0.0, dtype)
    first = rois[n * 4 + part] * scale - shift
    extent = rois[n * 4 + part + 2] * scale - shift - first
    if not regions.half_pixel:
        extent = tirx.max(extent, tirx.const(1, dtype))
    size = extent / tirx.const(bins, dtype)
    whole = tirx.Cast("int32", tirx.ceil(size))
    samples = T.int32(regions.ratio) if regions.ratio > 0 else whole
    return _Axis(first + tirx.Cast(dtype, place) * size, size, samples, dtype)


def _sample(
    data: T.Buffer,
    base: tirx.Expr,
    y: tirx.Expr,
    x: tirx.Expr,
    image: tuple[int, int],
    dtype: str,
) -> list[tirx.Expr]:
    """The four pixels around ``(y, x)`` with their weights; zeros far outside the image."""
    inside = tirx.all(y >= -1, y <= image[0], x >= -1, x <= image[1])
    rows, columns = _neighbours(y, image[0], dtype), _neighbours(x, image[1], dtype)
    zero = tirx.const(0, dtype)
    return [
        tirx.Select(
            inside,
            row_weight
            * column_weight
            * data[base + tirx.Cast("int64", row) * image[1] + tirx.Cast("int64", column)],
            zero,
        )
        for row, row_weight in rows
        for column, column_weight in columns
    ]


def _neighbours(
    at: tirx.Expr, extent: int, dtype: str
) -> tuple[tuple[tirx.Expr, tirx.Expr], tuple[tirx.Expr, tirx.Expr]]:
    """The pixels below and above a place, which is moved into the image, and their weights."""
    last = tirx.const(extent - 1, dtype)
    inside = tirx.max(tirx.min(at, last), tirx.const(0, dtype))
    below = tirx.Cast("int32", tirx.floor(inside))
    above = tirx.min(below + 1, T.int32(extent - 1))
    part = inside - tirx.Cast(dtype, below)
    return (below, tirx.const(1, dtype) - part), (above, part)
