"""Software prefetch of what an epilogue adds: while a tile is multiplied, its residual comes.

A residual was written several layers ago and lies in L3 or in memory. Read at the tile's end, all
its lines at once, nothing hides the way: ResNet's 1x1 layers with one took a tenth longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import Buffer, For, SeqStmt, Stmt
from tvm_ffi import structural_equal

from tvm_neocpu.topi.prefetch import (
    LEAST_BYTES,
    MOST_A_STEP,
    PREFETCH_KEY,
    innermost_block,
    position,
    request,
)
from tvm_neocpu.topi.rewrite_loops import over_body, with_body
from tvm_neocpu.topi.steps import FLOAT_BYTES, LINE_BYTES

LINE = LINE_BYTES // FLOAT_BYTES
LOCAL = "local"


@dataclass(frozen=True)
class _Tile:
    """What an epilogue reads of a residual: ``rows`` times ``lines`` cache lines.

    ``start``: the index of the first element; ``row_axis``: of the dimension that counts rows.
    """

    residual: Buffer
    start: tuple[Expr, ...]
    row_axis: int
    rows: int
    lines: int


def prefetch_residuals(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """# (for k: acc += ..); out = acc + r  ->  (for k: (prefetch of r; acc += ..)); out = acc + r

    Before :func:`tvm_neocpu.topi.prefetch.plant_prefetches`, whose marks show the loop over k.
    """
    return func.with_body(_planted(func.body))


def _planted(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, SeqStmt):
        return over_body(stmt, _planted)
    parts = [_planted(part) for part in stmt]
    tiles = [tile for part in parts for tile in _residuals_of(part)]
    if not tiles:
        return SeqStmt(parts)
    return SeqStmt([_with_requests(part, tiles, ()) for part in parts])


def _residuals_of(nest: Stmt) -> list[_Tile]:
    """The tiles of a loop nest over one block that reads as it writes: an epilogue."""
    loops: list[For] = []
    inside = nest
    while isinstance(inside, For):
        loops.append(inside)
        inside = inside.body
    block = innermost_block(inside)
    if block is None or not block.block.writes:
        return []
    written = block.block.writes[0]
    if written.source.scope() == LOCAL:
        return []
    values = dict(zip((axis.var for axis in block.block.iter_vars), block.iter_values, strict=True))
    index = [values.get(extent.min, extent.min) for extent in written.region]
    found = [_tile(buffer, index, loops) for buffer in _read_alike(block.block)]
    return [tile for tile in found if tile is not None]


def _read_alike(block: SBlock) -> list[Buffer]:
    """Buffers in memory of the output's shape, read where it is written."""
    written = block.writes[0]
    return [
        read.source
        for read in block.reads
        if read.source.scope() != LOCAL
        and structural_equal(list(read.source.shape), list(written.source.shape))
        and structural_equal(
            [extent.min for extent in read.region], [extent.min for extent in written.region]
        )
    ]


def _tile(buffer: Buffer, index: list[Expr], loops: list[For]) -> _Tile | None:
    """``None`` where rows are no runs of whole lines, or the buffer is small."""
    shape = [int(extent) for extent in buffer.shape]
    extents = [int(loop.extent) for loop in loops[-3:]]
    if len(shape) != 5 or len(extents) < 3 or extents[-1] != shape[-1] or shape[-1] % LINE:
        return None
    if prod(shape) * FLOAT_BYTES < LEAST_BYTES:
        return None
    rows, pixels, lanes = extents
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, tirx.const(0, "int32"))
    start = tuple(analyzer.simplify(axis) for axis in index)
    return _Tile(buffer, start, 2, rows, pixels * lanes // LINE)


def _with_requests(stmt: Stmt, tiles: list[_Tile], outer: tuple[For, ...]) -> Stmt:
    """A reduction's nest, in whose marked loop the tiles are asked for line by line."""
    if not isinstance(stmt, For):
        return stmt
    loops = (*outer, stmt)
    if PREFETCH_KEY not in stmt.annotations:
        return with_body(stmt, _with_requests(stmt.body, tiles, loops))
    step, steps = position(list(loops))
    requests = [ask for tile in tiles for ask in _requests(tile, step, steps)]
    return with_body(stmt, SeqStmt([*requests, stmt.body])) if requests else stmt


def _requests(tile: _Tile, step: Expr, steps: int) -> list[Stmt]:
    """As many a step as it takes to have asked for all lines in the last one."""
    wanted = tile.rows * tile.lines
    count = ceil(wanted / steps)
    if count > MOST_A_STEP:
        return []
    first = step * count if count > 1 else step * wanted // steps
    return [_request(tile, first + at) for at in range(count)]


def _request(tile: _Tile, line: Expr) -> Stmt:
    index = list(tile.start)
    if tile.rows > 1:
        index[tile.row_axis] = index[tile.row_axis] + line // tile.lines
    index[-1] = index[-1] + line % tile.lines * LINE if tile.rows > 1 else index[-1] + line * LINE
    return request(tile.residual, tuple(index))
