"""When a nest of loops is shared out to the cores, and how wide its statements are."""

from __future__ import annotations

import math

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.schedule import steps

# Below this many innermost operations a fork costs more than the other cores save.
MIN_PARALLEL_WORK = 8192
# Registers that one vector statement takes at most; a longer row is a loop.
MAX_VECTORS = 4
# The guess for an extent that is known at run time only.
UNKNOWN_EXTENT = 64


def work_of(sch: Schedule, loops: list[LoopRV]) -> int:
    """The innermost operations of a nest, with a guess where an extent is not known."""
    return math.prod(steps.static_extent(sch, loop) or UNKNOWN_EXTENT for loop in loops)


def run_rows_parallel(
    sch: Schedule, block: SBlockRV, loops: list[LoopRV], work: int, cpu: Cpu
) -> list[LoopRV]:
    """:func:`run_parallel`, where a block writes blocks of channels over rows first."""
    if work >= MIN_PARALLEL_WORK:
        loops = steps.rows_outside(sch, block, loops, cpu)
    return run_parallel(sch, loops, work)


def run_parallel(sch: Schedule, loops: list[LoopRV], work: int) -> list[LoopRV]:
    """Run the loops in parallel, as one, if that pays; returns what they are then."""
    if not loops or work < MIN_PARALLEL_WORK:
        return loops
    return [steps.parallel_fused(sch, *loops)]
