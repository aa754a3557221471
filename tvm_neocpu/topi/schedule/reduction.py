"""The schedule of reductions: a row of results in registers, or one in the lanes of a vector."""

from __future__ import annotations

import math

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.contraction import is_contraction
from tvm_neocpu.topi.schedule.row_axes import run_of_reductions
from tvm_neocpu.topi.schedule.shares import (
    MAX_VECTORS,
    run_parallel,
    run_rows_parallel,
    work_of,
)
from tvm_neocpu.topi.tir.tiles.whole_vectors import LANES_KEY

# Registers of partial results, and trips of a reduction from which on they pay.
MAX_PARTIAL_REGISTERS, MIN_PARTIAL_TRIPS = 8, 32
# Vectors of a row from which on a sum of vectors pays for folding the vector in the end.
MIN_ROW = 1


def schedule_reduction(sch: Schedule, block: SBlockRV, cpu: Cpu) -> None:
    """Schedule a block that reduces, in place; all extents are known."""
    axes, unit = sch.get(block).iter_vars, steps.unit_of(sch, block, cpu)
    loops = sch.get_loops(block)
    work = math.prod(steps.loop_extent(sch, loop) for loop in loops)
    if len(loops) != len(axes):
        return
    reduced = [int(axis.iter_type) == steps.REDUCE_AXIS for axis in axes]
    spatial = [loop for loop, is_reduced in zip(loops, reduced, strict=True) if not is_reduced]
    reduction = [loop for loop, is_reduced in zip(loops, reduced, strict=True) if is_reduced]
    if not spatial:
        return
    along = _reads_along_last_reduction(sch, block)
    if along and _reduce_in_lanes(sch, block, unit):
        return
    lanes, max_lanes = spatial[-1], MAX_VECTORS * unit.lanes
    extent = steps.loop_extent(sch, lanes)
    row = _lanes_of_row(extent, unit)
    if row < extent and len(spatial) > 1:
        spatial[-1:] = sch.split(lanes, [None, row])
        lanes = spatial[-1]
    blocked = 1 < steps.loop_extent(sch, lanes) <= max_lanes and len(spatial) > 1
    if not blocked:
        sch.reorder(*spatial, *reduction)
        run_parallel(sch, spatial, work)
        sch.decompose_reduction(block, reduction[0])
        return
    _reduce_rows(sch, block, cpu, spatial, reduction, work)


def _reduce_rows(
    sch: Schedule,
    block: SBlockRV,
    cpu: Cpu,
    spatial: list[LoopRV],
    reduction: list[LoopRV],
    work: int,
) -> None:
    """# for n, o, y, x, c, kh, kw  ->  parallel for n_y_o: for x: for kh, kw: vectorised c.

    The accumulator is a row of channels, or several partial ones, which LLVM keeps in registers.
    """
    unit = steps.unit_of(sch, block, cpu)
    # Part of a block's channels have a loop over the parts outside.
    is_part = len(spatial) > len(steps.output_shape(sch, block))
    reduced, partial = len(reduction), None
    if not is_part and not _begins_at_infinity(sch, block):
        registers = -(-steps.loop_extent(sch, spatial[-1]) // unit.lanes)
        partial, reduction = _partial_results(sch, reduction, registers)
    if partial is not None:  # what adds them up has loops of its own
        spatial = sch.get_loops(block)[: len(spatial)]
    *outer, lanes = spatial
    sch.reorder(*outer, *reduction, lanes)
    store = sch.cache_write(block, 0, steps.LOCAL)
    # A chunk is a row of pixels, whatever a pixel's channels are cut into.
    keep = min(len(outer) - 1, 2 if is_part else 1)
    run_rows_parallel(sch, block, outer[: len(outer) - keep], work, cpu)
    at = sch.get_loops(block)[-len(reduction) - 2]
    sch.reverse_compute_at(store, at, preserve_unit_loops=True)
    steps.vectorize_lanes(sch, sch.get_loops(store)[-1], unit)
    steps.vectorize_lanes(sch, lanes, unit)
    if partial is not None:
        _hold_partial_results(sch, partial, block, reduced, unit)
    zero = sch.decompose_reduction(block, reduction[0])
    steps.vectorize_lanes(sch, sch.get_loops(zero)[-1], unit)


def _partial_results(
    sch: Schedule, reduction: list[LoopRV], registers: int
) -> tuple[SBlockRV | None, list[LoopRV]]:
    """# for y, x: v += a[y, x]  ->  for y, x / 4: v4[0:4] += a[y, x:x + 4]; for x in 4: v += v4[x]

    Each addition to one sum waits for the one before (4 cycles). And a sum rounds once for each
    element: of 256 x 256, eight sums round less than one.

    Returns the block of partial results, and what is left to reduce.
    """
    extents = [steps.loop_extent(sch, loop) for loop in reduction]
    most = MAX_PARTIAL_REGISTERS // registers
    count = max((each for each in range(1, most + 1) if extents[-1] % each == 0), default=1)
    if count == 1 or math.prod(extents) < MIN_PARTIAL_TRIPS:
        return None, reduction
    _, place = sch.split(reduction[-1], [None, count])
    partial = sch.rfactor(place, 0)
    return partial, [place]


def _begins_at_infinity(sch: Schedule, block: SBlockRV) -> bool:
    """Whether it is an extreme (:mod:`..math.extremes`), of which TVM makes no partial results.

    Its ``rfactor`` knows those that begin at finite numbers. Others can be registered, but Python's
    functions for them are freed after Python has ended, and the process aborts.
    """
    init = sch.get(block).init
    return isinstance(init, BufferStore) and math.isinf(getattr(init.value, "value", 0.0))


def _hold_partial_results(
    sch: Schedule, partial: SBlockRV, block: SBlockRV, reduced: int, unit: VectorUnit
) -> None:
    """Compute them where ``block`` adds them up, in registers; over ``reduced`` loops."""
    sch.set_scope(partial, 0, steps.LOCAL)
    *_, at, _, _ = sch.get_loops(block)  # around the loop over partial results, and the lanes
    sch.compute_at(partial, at, preserve_unit_loops=True)
    *outer, last, _ = sch.get_loops(block)
    steps.unroll_all(sch, last)
    place, *spatial = sch.get_loops(partial)[len(outer) : -reduced]
    reduction = sch.get_loops(partial)[-reduced:]
    sch.reorder(*reduction, place, spatial[-1])
    steps.unroll_all(sch, place)
    steps.vectorize_lanes(sch, spatial[-1], unit)
    zero = sch.decompose_reduction(partial, reduction[0])
    steps.vectorize_lanes(sch, sch.get_loops(zero)[-1], unit)


def _lanes_of_row(extent: int, unit: VectorUnit) -> int:
    """Elements that a reduction holds in registers at a time: whole vectors that divide the extent.

    48 channels are two rows of 24 on AVX2. All of them where no whole vectors divide them.
    """
    if extent <= MAX_VECTORS * unit.lanes:
        return extent
    rows = (unit.lanes * vectors for vectors in range(MAX_VECTORS, 0, -1))
    return next((row for row in rows if extent % row == 0), extent)


def _reads_along_last_reduction(sch: Schedule, block: SBlockRV) -> bool:
    """Whether the elements that the innermost reduction combines lie side by side."""
    axes = sch.get(block).iter_vars
    if int(axes[-1].iter_type) != steps.REDUCE_AXIS:
        return False
    innermost = [read.region[-1].min for read in sch.get(block).reads if len(read.region)]
    along = [axes[-1].var.same_as(index) for index in innermost]
    # A factor that lies across would be gathered element by element.
    return all(along) if is_contraction(sch, block) else any(along)


def _reduce_in_lanes(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> bool:
    """# for n, k: y[n] += x[n, k]  ->  for n: for k: v += x[n, 16 k:16 k + 16]; y[n] += sum(v)

    Axes that are read one behind the other are one row: an image of 7 x 7 has 49 elements. Declines
    reductions to more than one result (an arg max) and short rows.
    """
    if not isinstance(sch.get(block).body, BufferStore):
        return False
    axes, loops = sch.get(block).iter_vars, sch.get_loops(block)
    reduced = [int(axis.iter_type) == steps.REDUCE_AXIS for axis in axes]
    outer = [loop for loop, is_reduced in zip(loops, reduced, strict=True) if not is_reduced]
    inner = [loop for loop, is_reduced in zip(loops, reduced, strict=True) if is_reduced]
    run = run_of_reductions(sch, block)
    if math.prod(steps.loop_extent(sch, loop) for loop in inner[-run:]) < MIN_ROW * unit.lanes:
        return False
    work = work_of(sch, loops)
    sch.reorder(*outer, *inner)
    inner[-run:] = [sch.fuse(*inner[-run:])] if run > 1 else inner[-1:]
    # Before the reduction is decomposed: its parts alone cannot run in parallel.
    run_parallel(sch, outer, work)
    sch.decompose_reduction(block, inner[0])
    sch.annotate(inner[-1], LANES_KEY, unit.lanes)
    return True
