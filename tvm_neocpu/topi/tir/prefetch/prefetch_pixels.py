"""Software prefetch of what a 1x1 convolution reads: during one tile, the next tile's pixels.

Its tile reads a few pixels of every block of channels: runs of 28 lines, a whole image apart, too
short for the processor's prefetchers to catch up with. ResNet-50's 256x56x56 layer into 64 channels
took 660 us in the network without this and 470 with it (one thread of Zen 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer
from tvm.tirx import Buffer, BufferRegion, For, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.loops.affine import bounds
from tvm_neocpu.topi.tir.loops.loop_nests import (
    as_run,
    corner,
    data_read,
    innermost_block,
    loops_of,
)
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body
from tvm_neocpu.topi.tir.prefetch.group_requests import with_requests
from tvm_neocpu.topi.tir.prefetch.requests import MAX_PER_STEP, is_large_map, line_of, request

PIXELS_KEY = "neocpu.pixels"
# The mark of a tile that is a run of pixels, where others have their stride.
RUN = 0


@dataclass(frozen=True)
class _Tile:
    """The input of a register tile in one block of channels: ``rows`` x ``columns`` pixels.

    ``corner``: the index of its first element. ``width``: columns of the output, in all its tiles.
    ``line``: elements of a cache line.
    """

    data: Buffer
    corner: tuple[Expr, ...]
    stride: tuple[int, int]
    rows: int
    columns: int
    width: int
    line: int

    @property
    def lines(self) -> int:
        return self.rows * self.columns * self.lines_of_pixel

    @property
    def lines_of_pixel(self) -> int:
        return int(self.data.shape[-1]) // self.line


def prefetch_next_pixels(
    sch: Schedule, step: LoopRV, kernel: tuple[int, int], stride: tuple[int, int]
) -> None:
    """Mark the loop over a block's channels; :func:`plant_pixel_requests` acts once all is done.

    # for ico, ici: tile  ->  for ico, ici: (prefetch of the next tile's pixels; tile)
    """
    if kernel == (1, 1):
        sch.annotate(step, PIXELS_KEY, list(stride))


def prefetch_next_run(sch: Schedule, step: LoopRV) -> None:
    """The same where a tile is a run of pixels, whatever rows they are of."""
    sch.annotate(step, PIXELS_KEY, RUN)


def plant_pixel_requests(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The scheduled function with requests in every marked loop; marks are removed."""

    def planted(loop: For, body: Stmt, _: tuple[For, ...]) -> For:
        if PIXELS_KEY not in loop.annotations:
            return with_body(loop, body)
        mark = loop.annotations[PIXELS_KEY]
        stride = None if mark == RUN else (int(mark[0]), int(mark[1]))
        update = innermost_block(body)
        read = None if update is None else data_read(update)
        # What the function computes itself, a prologue or a padded image, lies in a cache.
        given = read is not None and any(read.source.same_as(p) for p in func.params)
        tile = _tile_of(update, read, loops_of(body), stride, cpu) if given else None
        requests = [] if tile is None else _requests(tile, loop)
        lines = 0 if tile is None else tile.lines
        return with_requests(loop, PIXELS_KEY, requests, body, lines)

    return rewrite_loops(func, planted)


def _tile_of(
    update: SBlockRealize,
    read: BufferRegion,
    inside: list[For],
    stride: tuple[int, int] | None,
    cpu: Cpu,
) -> _Tile | None:
    """``None`` for data that is small, plain, or not of whole lines; a run has no ``stride``."""
    data, region = read.source, read.region
    line = line_of(data, cpu)
    if not is_large_map(data) or int(data.shape[-1]) % line:
        return None
    first, last = (corner(update, region, inside, at_end) for at_end in (False, True))
    width = int(data.shape[2]) * int(data.shape[3])
    if stride is None:
        stride, (first, last) = (1, 1), (as_run(index, data) for index in (first, last))
    else:
        width = int(update.block.writes[0].source.shape[3])
    analyzer = Analyzer()
    spans = [analyzer.simplify(last[axis] - first[axis]) for axis in (2, 3)]
    if not all(isinstance(span, tirx.IntImm) for span in spans):
        return None
    rows, columns = (int(span) // step + 1 for span, step in zip(spans, stride, strict=True))
    # Before the first channel of the block, which the marked loop counts.
    return _Tile(data, first[:4], stride, rows, columns, width, line)


def _requests(tile: _Tile, channels: For) -> list[Stmt]:
    """The requests of one step; all steps cover the next tile, in this row or below."""
    extent = int(channels.extent)
    count = ceil(tile.lines / extent)
    if count > MAX_PER_STEP:
        return []
    if count == 1:
        lines = [channels.loop_var * tile.lines // extent]
    else:
        lines = [tirx.min(channels.loop_var * count + at, tile.lines - 1) for at in range(count)]
    analyzer = Analyzer()
    analyzer.bind(channels.loop_var, bounds(channels.loop_var, 0, extent))
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
    return batch, block, y + row * down, x + column, line % run * tile.line
