"""The loops that a template's schedule makes of a block, as one line of text."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule.steps import block_name
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.tiles.skip_padding import INSIDE

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)

# tirx.ForKind
KINDS = {0: "", 1: "parallel ", 2: "vector ", 3: "unroll "}


def nest(workload: Workload, config: Config, block: str, cpu: Cpu = SKYLAKE) -> str:
    """``"parallel 7, 4, unroll 2, vector 16"``: loops around a block, without those of one pass."""
    return nest_of(schedule_blocks(unscheduled(workload, config), cpu), block)


def nest_of(scheduled: tirx.PrimFunc, block: str) -> str:
    """The same of a scheduled function."""
    sch = Schedule(scheduled)
    found = sch.get_sblock(block)
    loops = [sch.get(loop) for loop in [*_loops_around_test(sch, block), *sch.get_loops(found)]]
    kept = [f"{KINDS[int(loop.kind)]}{loop.extent}" for loop in loops if int(loop.extent) > 1]
    return ", ".join(kept)


def _loops_around_test(sch: Schedule, block: str) -> list[LoopRV]:
    """Loops around the test whether taps are inside the image, where the block is behind it."""
    tests = [each for each in child_blocks(sch) if block_name(sch, each) == INSIDE]
    behind = (sch.get(each).name_hint for test in tests for each in sch.get_child_blocks(test))
    return sch.get_loops(tests[0]) if block in behind else []
