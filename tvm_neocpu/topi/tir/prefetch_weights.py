"""Software prefetch of weights: while one panel is multiplied, the next one comes from memory.

A network's weights exceed the caches, so every layer finds its own in DRAM, and the hardware's
prefetchers run too short a way ahead of a product that reads a line every few cycles. Measured on
ResNet-50's 512x7x7 3x3 layer: 980 us with weights in cache, 1240 us without, 1000 us with this.

A *panel* is what one walk through the reduction reads of the weights; register tiles walk it again
and again. Every step of the reduction asks for a line or less: a burst of requests fills the miss
buffers of the L1 cache and the processor drops the rest (1270 us).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from tvm import tirx
from tvm.ir import Expr, Range
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer
from tvm.tirx import Buffer, Evaluate, For, SeqStmt, Stmt
from tvm.tirx.analysis import undefined_vars

from tvm_neocpu.topi.schedule.steps import FLOAT_BYTES, LINE, LINE_BYTES, REDUCE_AXIS
from tvm_neocpu.topi.tir.rewrite_loops import (
    behind,
    opaque,
    rewrite_loops,
    with_body,
    without_mark,
)

PREFETCH_KEY = "neocpu.prefetch"
# Smaller weights and feature maps stay in the caches from one run to the next.
LEAST_BYTES = 128 * 1024
# Of (N, C/x, H, W, x).
MAP_RANK = 5
# More requests a step cost more issue slots than memory costs time.
MOST_A_STEP = 4


def prefetch_next_panel(sch: Schedule, step: LoopRV) -> None:
    """Mark the innermost loop of a reduction; :func:`plant_prefetches` acts once all is scheduled.

    # for ico, kh, kw, ici: tile  ->  for ico, kh, kw, ici: (prefetch of the next panel; tile)
    """
    sch.annotate(step, PREFETCH_KEY, 1)


def plant_prefetches(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The scheduled function with a request in every marked loop; marks are removed."""
    return rewrite_loops(func, _planted)


@dataclass(frozen=True)
class _Walk:
    """How tiles walk over the weights' panels: all counts are constants, positions expressions.

    ``tile`` is the position among ``tiles`` register tiles that share a panel, ``step`` that of the
    outer reduction loops, ``inner`` the marked loop's variable.
    """

    weight: Expr
    panel_index: tuple[Expr, ...]
    panel_bytes: int
    tile: Expr
    tiles: int
    step: Expr
    steps: int
    inner: tirx.Var
    inner_extent: int


def _planted(loop: For, body: Stmt, outer: tuple[For, ...]) -> For:
    if PREFETCH_KEY not in loop.annotations:
        return with_body(loop, body)
    update = innermost_block(body)
    walk = None if update is None else _walk_of(update, (*outer, loop))
    requests = [] if walk is None else _requests(walk)
    return without_mark(loop, PREFETCH_KEY, behind(requests, body))


def _requests(walk: _Walk) -> list[Stmt]:
    """Prefetches of one reduction step: together all steps of all tiles cover the next panel."""
    lines = ceil(walk.panel_bytes / LINE_BYTES)
    a_step = ceil(lines / (walk.tiles * walk.steps))
    position = walk.tile * walk.steps + walk.step
    if a_step <= walk.inner_extent:
        first, count = position * a_step + walk.inner * a_step // walk.inner_extent, 1
    else:
        count = ceil(a_step / walk.inner_extent)
        first = (position * walk.inner_extent + walk.inner) * count
    if count > MOST_A_STEP:
        return []
    return [_request(walk, first + line) for line in range(count)]


def _request(walk: _Walk, line: Expr) -> Stmt:
    """Ask for a line counted from the end of the current panel: there the next one begins."""
    beyond = walk.panel_bytes // FLOAT_BYTES + line * LINE
    inside = len(walk.weight.shape) - len(walk.panel_index)
    return request(walk.weight, (*walk.panel_index, *[0] * (inside - 1), beyond))


def request(buffer: Buffer, index: tuple[Expr | int, ...], to_write: bool = False) -> Stmt:
    """Ask for the line of one element, which may lie beyond a row's or the buffer's end."""
    keep_close, data_cache = 3, 1
    address = tirx.address_of(buffer[index])
    call = tirx.call_intrin("void", "tirx.prefetch", address, int(to_write), keep_close, data_cache)
    return opaque("prefetch", Evaluate(call))


def _walk_of(update: SBlockRealize, loops: tuple[For, ...]) -> _Walk | None:
    """``None`` for weights that are small or not walked in the order in which they lie."""
    weight = update.block.reads[-1].source
    shape = [int(extent) for extent in weight.shape]
    axes = _bound_axes(update)
    if prod(shape) * FLOAT_BYTES < LEAST_BYTES or axes is None:
        return None
    panel_index, walked = axes
    reduction = [loop for loop in loops if loop.loop_var in walked]
    if not reduction:
        return None
    *steps, inner = reduction
    panels = [at for at, loop in enumerate(loops) if any(_uses(i, loop) for i in panel_index)]
    inside = loops[max(panels, default=-1) + 1 :]
    tile, tiles = position([loop for loop in inside if loop.loop_var not in walked])
    for chunk, chunks in filter(None, map(_shared_by, panel_index)):
        tile, tiles = chunk * tiles + tile, chunks * tiles
    panel_bytes = prod(shape[len(panel_index) :]) * FLOAT_BYTES
    last = inner.loop_var, int(inner.extent)
    return _Walk(weight, panel_index, panel_bytes, tile, tiles, *position(steps), *last)


def _bound_axes(update: SBlockRealize) -> tuple[tuple[Expr, ...], set[Expr]] | None:
    """(index of the panel, what walks through it) of the weights that an update reads last.

    ``None`` unless the reduction's axes are the inner ones, but for the vector.
    """
    iters = update.block.iter_vars
    bound = {axis.var: value for axis, value in zip(iters, update.iter_values, strict=True)}
    reduced = {axis.var for axis in iters if int(axis.iter_type) == REDUCE_AXIS}
    axes = [extent.min for extent in update.block.reads[-1].region]
    outside = next((at for at, axis in enumerate(axes) if axis in reduced), 0)
    if not outside or any(axis not in reduced for axis in axes[outside:-1]):
        return None
    panel_index = tuple(bound.get(axis, axis) for axis in axes[:outside])
    return panel_index, {bound[axis] for axis in axes[outside:-1]}


def position(loops: Sequence[For]) -> tuple[Expr, int]:
    """Where nested loops are, counted through, and how many positions they have."""
    position: Expr = tirx.const(0, "int32")
    count = 1
    for loop in loops:
        position = position * int(loop.extent) + loop.loop_var
        count *= int(loop.extent)
    return position, count


def _shared_by(index: Expr) -> tuple[Expr, int] | None:
    """A chunk's place among the chunks of one panel: ``(chunk % 14, 14)`` of ``chunk // 14``."""
    if isinstance(index, tirx.FloorMod):
        index = index.a
    if isinstance(index, tirx.FloorDiv) and isinstance(index.b, tirx.IntImm):
        return tirx.floormod(index.a, index.b), int(index.b)
    return None


def _uses(index: Expr, loop: For) -> bool:
    return loop.loop_var in undefined_vars(Evaluate(index))


def innermost_block(stmt: Stmt) -> SBlockRealize | None:
    """The block at the end of a loop nest, behind requests."""
    while isinstance(stmt, For | SeqStmt):
        stmt = stmt.body if isinstance(stmt, For) else list(stmt)[-1]
    return stmt if isinstance(stmt, SBlockRealize) else None


def corner(
    update: SBlockRealize, region: Sequence[Range], loops: Sequence[For], at_end: bool
) -> tuple[Expr, ...]:
    """The element where a block's region begins in the first or the last pass through loops."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, tirx.const(int(loop.extent) - 1 if at_end else 0, "int32"))
    for axis, value in zip(update.block.iter_vars, update.iter_values, strict=True):
        analyzer.bind(axis.var, analyzer.simplify(value))
    return tuple(analyzer.simplify(extent.min) for extent in region)


def is_large_map(buffer: Buffer) -> bool:
    """Whether it is a blocked feature map that does not stay in the caches."""
    shape = [int(extent) for extent in buffer.shape]
    return len(shape) == MAP_RANK and prod(shape) * FLOAT_BYTES >= LEAST_BYTES


def loops_of(nest: Stmt) -> list[For]:
    """Loops from the outermost to those around :func:`innermost_block`."""
    loops = []
    while isinstance(nest, For | SeqStmt):
        if isinstance(nest, For):
            loops.append(nest)
        nest = nest.body if isinstance(nest, For) else list(nest)[-1]
    return loops
