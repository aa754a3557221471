"""Padding of feature maps, plain or blocked, as a stage that templates place where it is cheap."""

from __future__ import annotations

from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tvm_neocpu.core.machine.cpu import VectorUnit
from tvm_neocpu.topi.image.depth import finds_images
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.prologue import has_parts, is_computed, take_parts
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop
from tvm_neocpu.topi.tir.tiles.parts_by_address import copy_by_address

# (top, left, bottom, right).
Padding = tuple[int, int, int, int]
# Of (N, C, H, W); blocked feature maps have a vector of channels behind that.
PLAIN_RANK = 4
# Marks the stage that pads a volume's images.
IMAGES_KEY = "neocpu.images"


def pad_spatial(
    data: te.Tensor,
    padding: Padding,
    at_least: tuple[int, int],
    name: str,
    value: float = 0.0,
    repeat: int = 1,
    parts: int = 1,
) -> te.Tensor:
    """Pad H and W of (N, C, H, W[, c]) by (top, left, bottom, right).

    The result has at least ``at_least`` rows and columns, so that tiles may overhang the output.
    It has every channel of a block ``repeat`` times, and ``parts`` narrower blocks for each block.
    Returns ``data`` where there is nothing to do, unless a prologue computes it: that needs the
    stage as its place. Images of a volume are found in the loop that reads them: LLVM makes two
    loops of it, one for images of zeros.
    """
    top, left, bottom, right = padding
    height, width = int(data.shape[2]), int(data.shape[3])
    rows = max(height + top + bottom, at_least[0])
    cols = max(width + left + right, at_least[1])
    in_place = finds_images(data) or not is_computed(data)
    if (rows, cols) == (height, width) and repeat == parts == 1 and in_place:
        return data
    lanes = [int(extent) // parts for extent in data.shape[4:]]

    def padded(n, c, y, x, *lane):
        at = [index // repeat for index in lane]
        if parts > 1:
            c, at = c // parts, [c % parts * lanes[0] + at[0]]
        pixel = data(n, c, y - top, x - left, *at)
        return inside_or((y, x), (top, left), (height, width), (rows, cols), pixel, value)

    shape = (data.shape[0], data.shape[1] * parts, rows, cols, *(width * repeat for width in lanes))
    attrs = {IMAGES_KEY: 1} if finds_images(data) else {}
    return te.compute(shape, padded, name=name, attrs=attrs)


def finds_images_in(sch: Schedule, name: str) -> bool:
    """Whether this padding stage reads the images of a volume, side by side."""
    pad = steps.find_block(sch, name)
    return pad is not None and IMAGES_KEY in sch.get(pad).annotations


def inside_or(
    at: tuple[tirx.Var, tirx.Var],
    begin: tuple[int, int],
    image: tuple[int, int],
    whole: tuple[int, int],
    pixel: tirx.Expr,
    value: float,
) -> tirx.Expr:
    """``pixel`` where a place of a padded image lies in the image itself, else ``value``.

    Pairs are of rows and columns: the image of extents ``image`` begins at ``begin`` of ``whole``.
    """
    inside = [
        condition
        for place, first, extent, end in zip(at, begin, image, whole, strict=True)
        for needed, condition in (
            (first > 0, place >= first),
            (end > extent + first, place < extent + first),
        )
        if needed
    ]
    if not inside:
        return pixel
    return tirx.if_then_else(tirx.all(*inside), pixel, tirx.const(value, str(pixel.ty.dtype)))


def place_padding(sch: Schedule, name: str, chunk: LoopRV | None, unit: VectorUnit) -> None:
    """Pad the rows that a chunk reads just before it reads them, while they fit the cache.

    Where chunks also split the output channels each would pad the same rows again. Then, without a
    ``chunk``, one pass pads all of them. Of a concat in front each block has its address.
    """
    pad = steps.find_block(sch, name)
    if pad is None:
        return
    parts = take_parts(sch, pad)
    rank = len(steps.output_shape(sch, pad))
    if chunk is not None:
        sch.compute_at(pad, chunk, preserve_unit_loops=True)
    elif rank == PLAIN_RANK:
        steps.parallel_fused(sch, *sch.get_loops(pad)[:-1])
    else:
        _, _, rows, *_ = steps.output_shape(sch, pad)
        outer = steps.parallel_and_vectorize(sch, pad, unit)
        if outer is not None and parts > 1:
            copy_by_address(sch, outer, rows)
        return
    *_, lanes = loops = sch.get_loops(pad)
    if rank == PLAIN_RANK:
        cut_loop(sch, lanes)  # where the image begins and ends: LLVM vectorises in between
        return
    if parts > 1:
        copy_by_address(sch, loops[1 - rank])
    steps.vectorize_lanes(sch, lanes, unit)


def inline_padding(sch: Schedule, name: str) -> None:
    """Let the reader of a blocked image test for its border, instead of reading a padded copy.

    Tests cost less than another pass over memory: Winograd by chunks of channels gains 2-5 %,
    depthwise layers a third (Zen 5).
    Where a prologue computes the image the copy stays, because its reader reads it more than once.
    """
    pad = steps.find_block(sch, name)
    if pad is not None and not has_parts(sch, pad):
        sch.compute_inline(pad)
