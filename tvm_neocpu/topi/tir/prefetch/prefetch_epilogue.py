"""Software prefetch of what an epilogue reads and writes, while its tiles are multiplied.

A residual was written several layers ago, an output's memory was last used by another layer: both
lie in L3 or in memory. At a tile's end all their lines are wanted at once and nothing hides the
latency. Figures of one thread of Zen 5: ResNet's 1x1 layers with a residual took a tenth longer.
Winograd stores whole rows of tiles between two products: its stem took 570 us with the output in
cache and 800 without. As few as 28 lines are worth a request, though the processor buffers 104
stores (ResNet-50's 14x14 1x1 layers into 1024 channels: 508 us without, 461 with).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import Buffer, For, IfThenElse, SeqStmt, Stmt
from tvm_ffi import structural_equal

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.schedule.steps import LOCAL
from tvm_neocpu.topi.tir.loops.loop_nests import as_run, corner, innermost_block, loops_of, position
from tvm_neocpu.topi.tir.loops.rewrite_loops import behind, block_with, over_body, with_body
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import NO_EPILOGUE, PREFETCH_KEY
from tvm_neocpu.topi.tir.prefetch.requests import MAX_PER_STEP, is_large_map, line_of, request

# The axis of rows in a blocked feature map.
ROWS = 2
# Requests at once that the processor does not drop.
MAX_PER_RUN = 12
# Share of L2 beyond which requested lines leave the caches again before they are wanted.
MAX_L2_SHARE = 0.25


@dataclass(frozen=True)
class _Region:
    """What a loop nest touches of a feature map: ``rows`` times ``lines`` cache lines.

    ``start``: the index of its first element. ``line``: elements of a cache line. ``of_pixel``:
    lines of a pixel where others lie between them and the next pixel's (a group's part of a block).
    """

    buffer: Buffer
    start: tuple[Expr, ...]
    rows: int
    lines: int
    line: int
    of_pixel: int
    written: bool


def prefetch_epilogues(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """# (for k: acc += ..); out = acc + r  ->  (for k: (prefetch of r; acc += ..)); out = acc + r

    Before :func:`.prefetch_weights.plant_prefetches`, whose marks show the loop over k.
    """
    return func.with_body(_planted(func.body, cpu))


def _planted(stmt: Stmt, cpu: Cpu) -> Stmt:
    if not isinstance(stmt, SeqStmt):
        return over_body(stmt, lambda body: _planted(body, cpu))
    parts = [_planted(part, cpu) for part in stmt]
    regions = [region for part in parts for region in _regions_of(part, cpu)]
    if not regions:
        return SeqStmt(parts)
    return SeqStmt([_with_requests(part, regions, ()) for part in parts])


def _regions_of(nest: Stmt, cpu: Cpu) -> list[_Region]:
    """What a loop nest that ends in an epilogue reads where it writes, and what it writes."""
    block = innermost_block(nest)
    if block is None or not block.block.writes:
        return []
    output = block.block.writes[0]
    if output.source.scope() == LOCAL or not is_large_map(output.source):
        return []
    loops = loops_of(nest)
    first, last = (corner(block, output.region, loops, at_end) for at_end in (False, True))
    line = line_of(output.source, cpu)
    size = _size(output.source, first, last, line, cpu)
    if size is None:
        first, last = (as_run(index, output.source) for index in (first, last))
        size = _size(output.source, first, last, line, cpu)
    if size is None:
        return []
    alike = _read_alike(block.block)
    rows, lines, of_pixel = size
    read = [_Region(each, first, rows, lines, line, of_pixel, written=False) for each in alike]
    return [*read, _Region(output.source, first, rows, lines, line, of_pixel, written=True)]


def _read_alike(block: SBlock) -> list[Buffer]:
    """Buffers in memory of the output's shape, read where it is written."""
    written = block.writes[0]
    place = [extent.min for extent in written.region]
    return [
        read.source
        for read in block.reads
        if read.source.scope() != LOCAL
        and structural_equal(list(read.source.shape), list(written.source.shape))
        and structural_equal([extent.min for extent in read.region], place)
    ]


def _size(
    buffer: Buffer, first: tuple[Expr, ...], last: tuple[Expr, ...], line: int, cpu: Cpu
) -> tuple[int, int, int] | None:
    """(rows, lines of a row, of a pixel) between two elements; None without runs, or too many."""
    shape = [int(extent) for extent in buffer.shape]
    analyzer = Analyzer()
    sides = [analyzer.simplify(end - begin + 1) for begin, end in zip(first, last, strict=True)]
    if not all(isinstance(side, tirx.IntImm) for side in sides):
        return None
    *outer, rows, cols, lanes = (min(int(s), most) for s, most in zip(sides, shape, strict=True))
    of_pixel = 0 if lanes == shape[-1] else ceil(lanes / line)
    lines = cols * of_pixel or cols * lanes // line
    # Two cores may write the halves of a line, and would take it from each other.
    halves = of_pixel > 0 and cpu.cores == 1
    whole = prod(outer) == 1 and (lanes % line == 0 or halves)
    stays = rows * lines * cpu.line <= MAX_L2_SHARE * cpu.l2
    return (rows, lines, of_pixel) if whole and stays else None


def _with_requests(stmt: Stmt, regions: list[_Region], outer: tuple[For, ...]) -> Stmt:
    """A reduction's nest, in which the regions are asked for line by line.

    A few lines before each run of the marked loop; where that runs too rarely, in each of its steps
    (whose index arithmetic takes a sixth of a small tile's time).
    """
    if isinstance(stmt, SeqStmt):
        return SeqStmt([_with_requests(part, regions, outer) for part in stmt])
    if isinstance(stmt, SBlockRealize) and isinstance(stmt.block.body, IfThenElse):
        test = over_body(stmt.block.body, lambda case: _with_requests(case, regions, outer))
        return block_with(stmt, test)
    if not isinstance(stmt, For):
        return stmt
    if NO_EPILOGUE in stmt.annotations:
        return stmt
    if PREFETCH_KEY in stmt.annotations:
        rare = [r for r in regions if _count(r, outer) > MAX_PER_RUN]
        often = [r for r in regions if _count(r, outer) <= MAX_PER_RUN]
        return behind(_all(often, outer), with_body(stmt, _in_steps(stmt, rare, outer)))
    return with_body(stmt, _with_requests(stmt.body, regions, (*outer, stmt)))


def _in_steps(marked: For, regions: list[_Region], outer: tuple[For, ...]) -> Stmt:
    loops = (*outer, marked)
    few = [region for region in regions if _count(region, loops) <= MAX_PER_STEP]
    return behind(_all(few, loops), marked.body)


def _all(regions: list[_Region], loops: tuple[For, ...]) -> list[Stmt]:
    return [ask for region in regions for ask in _requests(region, loops)]


def _count(region: _Region, loops: tuple[For, ...]) -> int:
    """Lines to ask for in each pass through some loops, to have asked for all in the last one."""
    return ceil(region.rows * region.lines / position(loops)[1])


def _requests(region: _Region, loops: tuple[For, ...]) -> list[Stmt]:
    wanted = region.rows * region.lines
    count, (step, steps) = _count(region, loops), position(loops)
    first = step * count if count > 1 else step // (steps // wanted)
    return [_request(region, tirx.min(first + at, wanted - 1)) for at in range(count)]


def _request(region: _Region, line: Expr) -> Stmt:
    index = list(region.start)
    if region.rows > 1:
        index[ROWS] = index[ROWS] + line // region.lines
        line = line % region.lines
    if region.of_pixel:
        index[-2] = index[-2] + line // region.of_pixel
        line = line % region.of_pixel
    index[-1] = index[-1] + line * region.line
    return request(region.buffer, tuple(index), region.written)
