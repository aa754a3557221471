"""The loops that a template's schedule makes of a block, as one line of text."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)

# tirx.ForKind
KINDS = {0: "", 1: "parallel ", 2: "vector ", 3: "unroll "}


def nest(workload: Workload, config: Config, block: str, cpu: Cpu = SKYLAKE) -> str:
    """``"parallel 7, 4, unroll 2, vector 16"``: loops around a block, without those of one pass."""
    return nest_of(schedule_blocks(unscheduled(workload, config), cpu), block)


def nest_of(scheduled: tirx.PrimFunc, block: str) -> str:
    """The same of a scheduled function."""
    sch = Schedule(scheduled)
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_sblock(block))]
    kept = [f"{KINDS[int(loop.kind)]}{loop.extent}" for loop in loops if int(loop.extent) > 1]
    return ", ".join(kept)
