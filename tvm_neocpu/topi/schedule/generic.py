"""The schedule of everything no template owns: pooling, reductions, elementwise, data movement.

In a blocked layout the innermost axis is a vector of channels, so one rule serves them all:
elementwise producers are inlined into their consumer, outer axes run in parallel, the innermost one
is vectorised, and a reduction keeps a row of results in registers. Rules of their own have sums of
products (:mod:`.contraction`), transposes (:mod:`.transpose`), copies with borders
(:mod:`.borders`) and stages that share a chunk (:mod:`.stages`).
"""

from __future__ import annotations

import math

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore

from tvm_neocpu.core.machine.cpu import MIN_LANES, Cpu, VectorUnit
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.math.vector_math import DTYPE
from tvm_neocpu.topi.schedule import shares, steps
from tvm_neocpu.topi.schedule.borders import interior_of
from tvm_neocpu.topi.schedule.contraction import is_contraction, tile_contraction
from tvm_neocpu.topi.schedule.reduction import schedule_reduction
from tvm_neocpu.topi.schedule.row_axes import run_of_elements
from tvm_neocpu.topi.schedule.shares import (
    MAX_VECTORS,
    run_parallel,
    run_rows_parallel,
    work_of,
)
from tvm_neocpu.topi.schedule.stages import (
    has_rows,
    is_stage,
    schedule_stages,
    vectorize_rows,
)
from tvm_neocpu.topi.schedule.transpose import tile_transpose
from tvm_neocpu.topi.tir.tiles.whole_vectors import IN_FLIGHT_KEY, LANES_KEY

# With fewer rows than this a core may get none.
MIN_PARALLEL_ROWS = 16


def schedule_generic(sch: Schedule, cpu: Cpu) -> None:
    """Schedule a function without an anchor, in place."""
    if any(_is_empty(sch, block) for block in child_blocks(sch)):
        # TVM divides by the extents of loops that it fuses. A reduction begins in its first trip:
        # one over nothing would leave its results as they are in memory.
        for block in child_blocks(sch):
            if steps.is_reduction(sch, block):
                sch.decompose_reduction(block, sch.get_loops(block)[0])
        return
    inline_elementwise(sch, child_blocks(sch))
    if schedule_stages(sch, cpu, shares.MIN_PARALLEL_WORK):
        return
    for block in child_blocks(sch):
        schedule_block(sch, block, cpu)


def _is_empty(sch: Schedule, block: SBlockRV) -> bool:
    return any(steps.static_extent(sch, loop) == 0 for loop in sch.get_loops(block))


def inline_elementwise(sch: Schedule, blocks: list[SBlockRV]) -> None:
    """# t = f(x); y = sum(t)  ->  y = sum(f(x)), where t has one reader and is no output.

    What a contraction reads stays: it would be computed again for every output channel, and the
    conditions of a padding would stand in the innermost loop.
    """
    for block in blocks:
        readers = sch.get_consumers(block)
        if len(readers) != 1 or steps.is_reduction(sch, block) or is_stage(sch, block):
            continue
        if is_contraction(sch, readers[0]):
            continue
        sch.compute_inline(block)


def schedule_behind(sch: Schedule, output: SBlockRV, cpu: Cpu) -> None:
    """Schedule what a template's ``output`` does not depend on: it works on another domain.

    # a = float(x); b = float(y); t = a * gate; z = t + b  ->  z = float(x) * gate + float(y)

    Operands join the chain behind the output with operations of their own.
    """
    before = steps.names_upstream(sch, output) | {steps.block_name(sch, output)}
    behind = [block for block in child_blocks(sch) if steps.block_name(sch, block) not in before]
    inline_elementwise(sch, behind[::-1])  # the last first: what several read has one reader then
    for block in child_blocks(sch):
        if steps.block_name(sch, block) not in before:
            schedule_block(sch, block, cpu)


def schedule_block(sch: Schedule, block: SBlockRV, cpu: Cpu) -> None:
    """One stage of its own: parallel outside, vectors inside.

    Loops written by hand (``te.extern``) name no buffer that they write; they stay as they are.
    """
    if not len(sch.get(block).writes):
        return
    unit = steps.unit_of(sch, block, cpu)
    if is_contraction(sch, block) and _schedule_contraction(sch, block, unit):
        return
    if not _is_static(sch, block):
        _schedule_symbolic(sch, block, unit)
    elif steps.is_reduction(sch, block):
        schedule_reduction(sch, block, cpu)
    else:
        _schedule_spatial(sch, block, cpu)


def _schedule_contraction(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> bool:
    """A convolution or matrix product in register tiles; declines where no vector would fit."""
    work = work_of(sch, sch.get_loops(block))
    return tile_contraction(sch, block, unit, parallel=work >= shares.MIN_PARALLEL_WORK)


def _schedule_symbolic(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> None:
    """# for n, o, y, x  ->  parallel for n_o_y: vectorised x, where extents are not all known.

    An innermost loop of unknown extent, and a reduction's, stay serial; LLVM may vectorise them.
    """
    axes, loops = sch.get(block).iter_vars, sch.get_loops(block)
    if len(loops) != len(axes) or not loops:
        return
    work = work_of(sch, loops)
    reduced = [int(axis.iter_type) == steps.REDUCE_AXIS for axis in axes]
    outer = [loop for loop, is_reduced in zip(loops, reduced, strict=True) if not is_reduced]
    inner = [loop for loop, is_reduced in zip(loops, reduced, strict=True) if is_reduced]
    if inner:
        sch.reorder(*outer, *inner)
    elif steps.static_extent(sch, loops[-1]) is None:
        outer = loops[:-1] or loops
    else:
        outer = [*loops[:-1], *_vectorize_last(sch, loops[-1], unit)]
    run_parallel(sch, outer, work)
    if any(steps.static_extent(sch, loop) is None for loop in inner):  # a run's may be 0
        sch.decompose_reduction(block, inner[0])


def _schedule_spatial(sch: Schedule, block: SBlockRV, cpu: Cpu) -> None:
    """# for n, o, y, x, c  ->  parallel for n_y_o: for x: vectorised c.

    A row of its own lets LLVM lift out of the loop what depends on channel and row alone: the
    choice of a concat's part, the divisions of an interleave (4 times faster for NCHW4c).
    """
    loops, unit = sch.get_loops(block), steps.unit_of(sch, block, cpu)
    if not loops:
        return
    work = math.prod(steps.loop_extent(sch, loop) for loop in loops)
    if tile_transpose(sch, block, unit, parallel=work >= shares.MIN_PARALLEL_WORK):
        return
    interior = interior_of(sch, block)
    row = _fused_row(sch, block, unit)
    if row is not None:
        outer = row
    elif interior is not None or has_rows(sch, block):
        vectorize_rows(sch, block, unit, interior)
        outer = loops[:-1]
    else:
        vectors = _vectorize_last(sch, loops[-1], unit)
        # A row that no vector divides stays a loop for LLVM to vectorise.
        outer = loops[:-1] if vectors == loops[-1:] and len(loops) > 1 else [*loops[:-1], *vectors]
    rows = math.prod(steps.loop_extent(sch, loop) for loop in outer[:3])
    if len(outer) > 3 and rows >= MIN_PARALLEL_ROWS:
        outer = outer[:3]
    if row is None:
        run_rows_parallel(sch, block, outer, work, cpu)
    else:
        run_parallel(sch, outer, work)


def _fused_row(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> list[LoopRV] | None:
    """# for c, y, x: z[c, y, x] = f(a[c, y, x])  ->  for c_y_x: z[c_y_x] = f(a[c_y_x])

    Returns the loops to run in parallel. Full vectors, several in flight: 28 columns are no whole
    number of vectors, and a formula over one vector waits for each of its results. Declines where
    no axes are one row, where a few rows would not keep the cores busy, and other types than
    float32. Buffers of the function itself too: TVM sizes them by their indices, and a fused row
    has one index for all of its axes.
    """
    run, loops = run_of_elements(sch, block), sch.get_loops(block)
    found = sch.get(block)
    if run == 1 or not isinstance(found.body, BufferStore) or len(loops) != len(found.iter_vars):
        return None
    buffers = [region.source for region in (*found.reads, *found.writes)]
    if any(str(each.dtype) != DTYPE or steps.is_allocated(sch, each) for each in buffers):
        return None
    rows = math.prod(steps.loop_extent(sch, loop) for loop in loops[:-run])
    if 1 < rows < MIN_PARALLEL_ROWS and work_of(sch, loops) >= shares.MIN_PARALLEL_WORK:
        return None
    row = sch.fuse(*loops[-run:])
    sch.annotate(row, LANES_KEY, unit.lanes)
    sch.annotate(row, IN_FLIGHT_KEY, MAX_VECTORS)
    return loops[:-run] if rows > 1 else [row]


def _vectorize_last(sch: Schedule, loop: LoopRV, unit: VectorUnit) -> list[LoopRV]:
    """Vectorise the innermost loop; returns what is left of it outside the vector."""
    extent = steps.loop_extent(sch, loop)
    if extent <= MAX_VECTORS * unit.lanes:
        steps.vectorize_lanes(sch, loop, unit)
        return []
    width = min(extent & -extent, MAX_VECTORS * unit.lanes)
    if width < MIN_LANES:
        return [loop]
    outer, lanes = sch.split(loop, [None, width])
    steps.vectorize_lanes(sch, lanes, unit)
    return [outer]


def _is_static(sch: Schedule, block: SBlockRV) -> bool:
    return all(steps.static_extent(sch, loop) is not None for loop in sch.get_loops(block))
