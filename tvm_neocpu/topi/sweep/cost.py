"""What a sweep costs unmeasured: bytes over bandwidth, or loads over load slots."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.cost.roofline import overlapped, streamed_bytes_per_cycle
from tvm_neocpu.topi.sweep.geometry import SweepConfig, contiguous_run
from tvm_neocpu.topi.sweep.workload import SweepWorkload

# Share of the streaming bandwidth that a copy of contiguous rows reaches.
STREAMED = 0.7
# Instructions for each element of a window: a load, a max or an addition, and their share of the
# loops around a small window, which is not unrolled.
PER_TAP = 2.0


def predict_seconds(sweep: SweepWorkload, config: SweepConfig, cpu: Cpu) -> float:
    """Predicted seconds on ``cpu.cores`` threads."""
    bandwidth = streamed_bytes_per_cycle(sweep.min_bytes, cpu)
    moved = sweep.min_bytes / (bandwidth * STREAMED)
    issued = issue_cycles(sweep, cpu) / cpu.cores
    return overlapped(moved, issued) / (cpu.ghz * 1e9) + cpu.fork_join


def issue_cycles(sweep: SweepWorkload, cpu: Cpu) -> float:
    """Cycles in which one core issues the sweep's instructions, its data in the near caches."""
    steps = sweep.reads / contiguous_run(sweep, cpu.lanes(sweep.types.data))
    return steps * PER_TAP / cpu.load_per_cycle
