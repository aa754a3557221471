"""Software prefetch of weights: while one panel is multiplied, the next one comes from memory.

A network's weights exceed the caches, so every layer finds its own in DRAM, and the hardware's
prefetchers do not run far enough ahead of a product that reads a line every few cycles. Zen 5,
ResNet-50's 512x7x7 3x3 layer: 980 us with weights in cache, 1240 us without, 1000 us with this.

A *panel* is what one walk through the reduction reads of the weights; register tiles walk it again
and again. Every step of the reduction asks for a line or less: a burst of requests fills the miss
buffers of the L1 cache and the processor drops the rest (1270 us).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer
from tvm.tirx import Buffer, BufferRegion, For, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.cost.roofline import MIN_PREFETCHED_BYTES
from tvm_neocpu.topi.tir.loops.affine import replaced, uses
from tvm_neocpu.topi.tir.loops.loop_nests import (
    REDUCE_AXIS,
    analyzer_of,
    innermost_block,
    loops_of,
    position,
    weight_read,
)
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body, without_mark
from tvm_neocpu.topi.tir.prefetch.group_requests import with_requests
from tvm_neocpu.topi.tir.prefetch.requests import MAX_PER_STEP, buffer_bytes, line_of, request

PREFETCH_KEY = "neocpu.prefetch"
# Of a marked loop: the requests that a step of it has room for.
MOST_KEY = "neocpu.prefetch_most"
# Of a marked loop: a tile passes over several panels.
PASSES_KEY = "neocpu.prefetch_passes"
# Of a marked loop: another one asks for what the epilogue reads and writes.
NO_EPILOGUE = "neocpu.no_epilogue"
# What a marked loop may have beside its mark.
NOTES = (MOST_KEY, PASSES_KEY, NO_EPILOGUE)


def prefetch_next_panel(
    sch: Schedule,
    step: LoopRV,
    ahead: int = 1,
    most: int = MAX_PER_STEP,
    in_passes: bool = False,
) -> None:
    """Mark the innermost loop of a reduction; :func:`plant_prefetches` acts once all is scheduled.

    # for ico, kh, kw, ici: tile  ->  for ico, kh, kw, ici: (prefetch of the next panel; tile)

    ``ahead``: which panel behind this one is asked for; the next one of short panels comes too soon
    after the request. ``most``: requests that a step has room for; of more none is made.
    ``in_passes``: each tile walks several panels in turn; the loop over them is the innermost one
    outside the reduction.
    """
    sch.annotate(step, PREFETCH_KEY, ahead)
    if in_passes:
        sch.annotate(step, PASSES_KEY, 1)
    if most != MAX_PER_STEP:
        sch.annotate(step, MOST_KEY, most)


def plant_prefetches(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The scheduled function with a request in every marked loop; marks are removed."""

    def planted(loop: For, body: Stmt, outer: tuple[For, ...]) -> For:
        if PREFETCH_KEY not in loop.annotations:
            return with_body(loop, body)
        update = innermost_block(body)
        ahead = int(loop.annotations[PREFETCH_KEY])
        most = int(loop.annotations.get(MOST_KEY, MAX_PER_STEP))
        in_passes = PASSES_KEY in loop.annotations
        walk = None
        if update is not None:
            walk = _walk_of(update, (*outer, loop), ahead, most, in_passes)
        requests = [] if walk is None else _requests(walk, cpu)
        lines = 0 if walk is None else _lines_a_pass(walk, cpu)
        bare = loop
        for key in NOTES:
            bare = without_mark(bare, key, body)
        return with_requests(bare, PREFETCH_KEY, requests, body, lines)

    return rewrite_loops(func, planted)


@dataclass(frozen=True)
class _Walk:
    """How tiles walk over the weights' panels: all counts are constants, positions expressions.

    ``tile`` is the position among ``tiles`` register tiles that share a panel, ``step`` that of the
    outer reduction loops, ``inner`` the marked loop's variable. The panel ``ahead`` of this one is
    asked for. ``most``: requests that a step of the marked loop has room for.
    """

    weight: Buffer
    panel_index: tuple[Expr, ...]
    panel_bytes: int
    tile: Expr
    tiles: int
    step: Expr
    steps: int
    inner: tirx.Var
    inner_extent: int
    ahead: int = 1
    most: int = MAX_PER_STEP


def _lines_a_pass(walk: _Walk, cpu: Cpu) -> int:
    """Lines that one pass of the marked loop asks for: those of all passes cover the next panel."""
    return ceil(ceil(walk.panel_bytes / cpu.line) / (walk.tiles * walk.steps))


def _requests(walk: _Walk, cpu: Cpu) -> list[Stmt]:
    """Prefetches of one reduction step."""
    lines = _lines_a_pass(walk, cpu)
    if lines == 1:
        return [_request(walk, _line_of_pass(walk, cpu), cpu)]
    position = walk.tile * walk.steps + walk.step
    if lines <= walk.inner_extent:
        first, count = position * lines + walk.inner * lines // walk.inner_extent, 1
    else:
        count = ceil(lines / walk.inner_extent)
        first = (position * walk.inner_extent + walk.inner) * count
    if count > walk.most:
        return []
    return [_request(walk, first + line, cpu) for line in range(count)]


def _line_of_pass(walk: _Walk, cpu: Cpu) -> Expr:
    """The line that a pass asks for where the next panel has no more lines than there are passes.

    A line for each pass would reach far beyond it: 28 tiles in 16 steps ask for 448 lines, a panel
    of int8 weights (256 channels of 8 filters) has 32. Here the last lines, fewer than a panel's,
    lie beyond it.
    """
    lines = ceil(walk.panel_bytes / cpu.line)
    if lines <= walk.tiles:
        return walk.tile // (walk.tiles // lines)
    of_tile = ceil(lines / walk.tiles)
    return walk.tile * of_tile + walk.step * of_tile // walk.steps


def _request(walk: _Walk, line: Expr, cpu: Cpu) -> Stmt:
    """Ask for a line of a panel behind the current one, of whose first element it is counted."""
    elements = walk.panel_bytes // item_bytes(str(walk.weight.dtype))
    beyond = elements * walk.ahead + line * line_of(walk.weight, cpu)
    inside = len(walk.weight.shape) - len(walk.panel_index)
    return request(walk.weight, (*walk.panel_index, *[0] * (inside - 1), beyond))


def _walk_of(
    update: SBlockRealize, loops: tuple[For, ...], ahead: int, most: int, in_passes: bool
) -> _Walk | None:
    """``None`` for weights that are small or not walked in the order in which they lie."""
    read = weight_read(update)
    if read is None or buffer_bytes(read.source) < MIN_PREFETCHED_BYTES:
        return None
    inside_step = loops_of(loops[-1].body)
    weight, axes = read.source, _bound_axes(update, read, (*loops, *inside_step))
    if axes is None:
        return None
    panel_index, walked = axes
    reduction = [loop for loop in loops if loop.loop_var in walked]
    if not reduction:
        return None
    *steps, inner = reduction
    panels = [
        at for at, loop in enumerate(loops) if any(uses(i, loop.loop_var) for i in panel_index)
    ]
    # The panels that passes of one tile walk, or each step of it, lie side by side: they count as
    # one, of its block.
    passes = [loops[panels.pop()]] if in_passes else []
    at_once = [loop for loop in inside_step if any(uses(i, loop.loop_var) for i in panel_index)]
    inside = loops[max(panels, default=-1) + 1 :]
    known = walked.union(loop.loop_var for loop in passes)
    tile, tiles = position([loop for loop in inside if loop.loop_var not in known])
    first, blocks = _first_of(panel_index, [*passes, *at_once])
    for chunk, chunks in filter(None, map(_shared_by, blocks)):
        tile, tiles = chunk * tiles + tile, chunks * tiles
    shape = [int(extent) for extent in weight.shape]
    panel_bytes = prod(shape[len(panel_index) :]) * item_bytes(str(weight.dtype))
    panel_bytes *= prod(int(loop.extent) for loop in (*passes, *at_once))
    step, count = position([*passes, *steps])
    last = inner.loop_var, int(inner.extent)
    return _Walk(weight, first, panel_bytes, tile, tiles, step, count, *last, ahead, most)


def _first_of(
    panel_index: tuple[Expr, ...], over_panels: list[For]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The index of a tile's first panel, and that of its block: ``(2 * o, o)`` of 2 * o + co."""
    first, blocks = list(panel_index), list(panel_index)
    for loop in over_panels:
        var, count = loop.loop_var, loop.extent
        for at, index in enumerate(first):
            if uses(index, var):
                first[at] = replaced(index, {var: tirx.const(0, str(var.ty.dtype))})
                blocks[at] = Analyzer().simplify(tirx.floordiv(first[at], count))
    return tuple(first), tuple(blocks)


def _bound_axes(
    update: SBlockRealize, weight: BufferRegion, loops: tuple[For, ...]
) -> tuple[tuple[Expr, ...], set[Expr]] | None:
    """(index of the panel, variables that walk through it) of the weights.

    ``None`` unless the reduction's axes are the inner ones, but for the vector.
    """
    iters = update.block.iter_vars
    bound = {axis.var: value for axis, value in zip(iters, update.iter_values, strict=True)}
    reduced = {axis.var for axis in iters if int(axis.iter_type) == REDUCE_AXIS}
    axes = [_without_factor(extent.min) for extent in weight.region]
    outside = next((at for at, axis in enumerate(axes) if axis in reduced), 0)
    if not outside or any(axis not in reduced for axis in axes[outside:-1]):
        return None
    panel_index = tuple(
        # 2 * o + (32 * co + ci) // 32, of a block whose panels are parts of it, is 2 * o + co.
        bound[axis] if axis in bound else analyzer_of(loops).simplify(replaced(axis, bound))
        for axis in axes[:outside]
    )
    return panel_index, {bound[axis] for axis in axes[outside:-1]}


def _without_factor(axis: Expr) -> Expr:
    """``ici`` of ``2 * ici``: a step of the reduction reads several words that lie together."""
    if isinstance(axis, tirx.Mul) and isinstance(axis.b, tirx.IntImm):
        return axis.a
    return axis


def _shared_by(index: Expr) -> tuple[Expr, int] | None:
    """A chunk's place among the chunks of one panel: ``(chunk % 14, 14)`` of ``chunk // 14``."""
    if isinstance(index, tirx.FloorMod):
        index = index.a
    if isinstance(index, tirx.FloorDiv) and isinstance(index.b, tirx.IntImm):
        return tirx.floormod(index.a, index.b), int(index.b)
    return None
