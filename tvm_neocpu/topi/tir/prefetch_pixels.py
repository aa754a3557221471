"""Software prefetch of what a 1x1 convolution reads: during one tile, the next tile's pixels.

Its tile reads a few pixels of every block of channels: runs of 28 lines, a whole image apart, too
short for the processor's prefetchers to catch up with. ResNet-50's 256x56x56 layer into 64 channels
took 660 us in the network without this and 470 with it (one thread).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tvm import tirx
from tvm.ir import Expr, Range
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer
from tvm.tirx import Buffer, BufferRegion, For, Stmt

from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.schedule.steps import LINE
from tvm_neocpu.topi.tir.prefetch_weights import (
    MOST_A_STEP,
    corner,
    innermost_block,
    is_large_map,
    loops_of,
    request,
)
from tvm_neocpu.topi.tir.rewrite_loops import behind, rewrite_loops, with_body, without_mark

PIXELS_KEY = "neocpu.pixels"


@dataclass(frozen=True)
class _Tile:
    """The input of a register tile in one block of channels: ``rows`` x ``columns`` pixels.

    ``corner``: the index of its first element. ``width``: columns of the output, in all its tiles.
    """

    data: Buffer
    corner: tuple[Expr, ...]
    stride: tuple[int, int]
    rows: int
    columns: int
    width: int

    @property
    def lines(self) -> int:
        return self.rows * self.columns * self.lines_of_pixel

    @property
    def lines_of_pixel(self) -> int:
        return int(self.data.shape[-1]) // LINE


def prefetch_next_pixels(sch: Schedule, step: LoopRV, conv: ConvWorkload) -> None:
    """Mark the loop over a block's channels; :func:`plant_pixel_requests` acts once all is done.

    # for ico, ici: tile  ->  for ico, ici: (prefetch of the next tile's pixels; tile)
    """
    if conv.kernel == (1, 1):
        sch.annotate(step, PIXELS_KEY, list(conv.stride))


def plant_pixel_requests(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The scheduled function with requests in every marked loop; marks are removed."""

    def planted(loop: For, body: Stmt, _: tuple[For, ...]) -> For:
        if PIXELS_KEY not in loop.annotations:
            return with_body(loop, body)
        down, across = (int(stride) for stride in loop.annotations[PIXELS_KEY])
        update = innermost_block(body)
        # What the function computes itself, a prologue or a padded image, lies in a cache.
        given = update is not None and any(_read(update).source.same_as(p) for p in func.params)
        tile = _tile_of(update, loops_of(body), (down, across)) if given else None
        requests = [] if tile is None else _requests(tile, loop)
        return without_mark(loop, PIXELS_KEY, behind(requests, body))

    return rewrite_loops(func, planted)


def _read(update: SBlockRealize) -> BufferRegion:
    """The data: an update reads its accumulator, the data, the weights."""
    return update.block.reads[-2]


def _tile_of(update: SBlockRealize, inside: list[For], stride: tuple[int, int]) -> _Tile | None:
    """``None`` for data that is small, plain, or not of whole lines."""
    data, region = _read(update).source, _read(update).region
    if not is_large_map(data) or int(data.shape[-1]) % LINE:
        return None
    first, last = (corner(update, region, inside, at_end) for at_end in (False, True))
    analyzer = Analyzer()
    spans = [analyzer.simplify(last[axis] - first[axis]) for axis in (2, 3)]
    if not all(isinstance(span, tirx.IntImm) for span in spans):
        return None
    rows, columns = (int(span) // step + 1 for span, step in zip(spans, stride, strict=True))
    width = int(update.block.writes[0].source.shape[3])
    # Before the first channel of the block, which the marked loop counts.
    return _Tile(data, first[:4], stride, rows, columns, width)


def _requests(tile: _Tile, channels: For) -> list[Stmt]:
    """Of one step; all steps cover the tile that comes next, in this row or below."""
    extent = int(channels.extent)
    count = ceil(tile.lines / extent)
    if count > MOST_A_STEP:
        return []
    if count == 1:
        lines = [channels.loop_var * tile.lines // extent]
    else:
        lines = [tirx.min(channels.loop_var * count + at, tile.lines - 1) for at in range(count)]
    analyzer = Analyzer()
    analyzer.bind(channels.loop_var, Range(0, extent))
    indices = [[analyzer.simplify(axis) for axis in _index(tile, line)] for line in lines]
    return [request(tile.data, tuple(index)) for index in indices]


def _index(tile: _Tile, line: Expr) -> tuple[Expr, ...]:
    """Where a line of the next tile begins; rows that lie together are counted through."""
    batch, block, y, x = tile.corner
    down, across = tile.stride
    beyond, width = x + tile.columns * across, tile.width * across
    y, x = y + beyond // width * tile.rows * down, beyond % width
    run = tile.lines_of_pixel * (tile.columns if across == 1 else 1)
    row, column = line // run, 0
    if across > 1:
        row, column = row // tile.columns, row % tile.columns * across
    return batch, block, y + row * down, x + column, line % run * LINE
