"""Small logs of one convolution on a CPU that nobody has."""

from __future__ import annotations

from pathlib import Path

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.log import TuningLog

CPU = Cpu("testcpu", AVX2, 2)
A, B = ConvConfig(8, 16, 7), ConvConfig(16, 16, 14)


def log_of(path: Path, *records: Record) -> Path:
    """A log with these records more."""
    log = TuningLog(path)
    for record in records:
        log.append(record)
    return path


def plan_log(path: Path, plan: Plan, graph: ConvGraph, threads: int = 2) -> Path:
    """A log with this plan more."""
    TuningLog(path).append_plan(plan, graph, CPU.name, threads)
    return path
