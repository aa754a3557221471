"""Stages that a computation wants beside their reader: one parallel loop, rows of whole vectors.

A formula notes on a stage how many outer axes it shares with all that follows. The general rule
would inline the stage, or compute all of it in a pass of its own.

    for n, c, y, x: pad = ..                 parallel for n_c:
    for n, c, y, x: rows = f(pad)    ->          for y, x: pad = ..
    for n, c, y, x: z = g(rows)                  for y, x: rows = f(pad)
                                                 for y, x: z = g(rows)
"""

from __future__ import annotations

from math import prod

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.row_axes import run_of_reductions
from tvm_neocpu.topi.tir.tiles.whole_vectors import INTERIOR_KEY, LANES_KEY

# Notes on a block: the outer axes that it shares; its columns whose value has no conditions; that
# it sums vectors of channels, not the elements of a row.
STAGE_KEY, STAGE_INTERIOR_KEY = "neocpu.stage", "neocpu.stage_interior"
STAGE_VECTORS_KEY = "neocpu.stage_vectors"
# On a block that is no stage: its rows are to be whole vectors.
ROWS_KEY = "neocpu.rows"


def stage_attrs(
    outer: int, interior: tuple[int, int] | None = None, of_vectors: bool = False
) -> dict[str, object]:
    """Block attributes for ``te.compute(..., attrs=...)``.

    ``of_vectors``: it sums along other axes than the last one, vector by vector.
    """
    attrs: dict[str, object] = {STAGE_KEY: outer}
    if interior is not None:
        attrs[STAGE_INTERIOR_KEY] = list(interior)
    return {**attrs, STAGE_VECTORS_KEY: 1} if of_vectors else attrs


def row_attrs() -> dict[str, object]:
    """Block attributes for a computation of its own whose rows are to be whole vectors."""
    return {ROWS_KEY: 1}


def is_stage(sch: Schedule, block: SBlockRV) -> bool:
    """Whether a block is noted as a stage."""
    return STAGE_KEY in sch.get(block).annotations


def schedule_stages(sch: Schedule, cpu: Cpu, min_parallel: int) -> bool:
    """Schedule a function of stages and their last reader; False if it has no stages.

    ``min_parallel``: the operations from which on a fork pays.
    """
    *stages, last = child_blocks(sch)
    if not stages or not all(is_stage(sch, stage) for stage in stages):
        return False
    shared = int(sch.get(stages[0]).annotations[STAGE_KEY])
    work = sum(_work(sch, block) for block in (*stages, last))
    outer = sch.fuse(*sch.get_loops(last)[:shared])
    for stage in reversed(stages):
        sch.compute_at(stage, outer, preserve_unit_loops=True)
    if work >= min_parallel:
        steps.parallel_fused(sch, outer)
    for stage in (*stages, last):
        vectorize_rows(sch, stage, steps.unit_of(sch, stage, cpu))
    return True


def _work(sch: Schedule, block: SBlockRV) -> int:
    return prod(steps.loop_extent(sch, loop) for loop in sch.get_loops(block))


def has_rows(sch: Schedule, block: SBlockRV) -> bool:
    """Whether a block is noted as one of whole rows."""
    return ROWS_KEY in sch.get(block).annotations


def vectorize_rows(
    sch: Schedule, block: SBlockRV, unit: VectorUnit, interior: tuple[int, int] | None = None
) -> None:
    """Whole vectors along the innermost loop of a stage; the notes are removed."""
    notes = sch.get(block).annotations
    interior = interior or notes.get(STAGE_INTERIOR_KEY)
    of_vectors = STAGE_VECTORS_KEY in notes
    for key in (STAGE_KEY, STAGE_INTERIOR_KEY, STAGE_VECTORS_KEY, ROWS_KEY):
        if key in notes:
            sch.unannotate(block, key)
    if not isinstance(sch.get(block).body, BufferStore):
        return
    if of_vectors:
        _sum_vectors(sch, block, unit)
        return
    last = _in_reduction(sch, block) if steps.is_reduction(sch, block) else sch.get_loops(block)[-1]
    sch.annotate(last, LANES_KEY, unit.lanes)
    if interior is not None:
        sch.annotate(last, INTERIOR_KEY, [int(bound) for bound in interior])


def _sum_vectors(sch: Schedule, block: SBlockRV, unit: VectorUnit) -> None:
    """# for x, c: for y: s[x, c] += a[y, x, c]  ->  for y: for x: s[x, 0:16] += a[y, x, 0:16]."""
    axes = sch.get(block).iter_vars
    kept: list[LoopRV] = []
    summed: list[LoopRV] = []
    for axis, loop in zip(axes, sch.get_loops(block)[-len(axes) :], strict=True):
        (summed if int(axis.iter_type) == steps.REDUCE_AXIS else kept).append(loop)
    sch.reorder(*summed, *kept)
    steps.vectorize_lanes(sch, kept[-1], unit)
    sch.decompose_reduction(block, summed[0])


def _in_reduction(sch: Schedule, block: SBlockRV) -> LoopRV:
    """The loop over the row of a reduction, its start a statement of its own."""
    axes = sch.get(block).iter_vars
    count = sum(int(axis.iter_type) == steps.REDUCE_AXIS for axis in axes)
    inner = sch.get_loops(block)[-count:]
    run = run_of_reductions(sch, block)
    inner[-run:] = [sch.fuse(*inner[-run:])] if run > 1 else inner[-1:]
    sch.decompose_reduction(block, inner[0])
    return inner[-1]
