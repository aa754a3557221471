"""What the others are compared with."""

from __future__ import annotations

from tvm_neocpu.scheduling.graph.price import Profiler
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.partition.partition import Partition
from tvm_neocpu.scheduling.partition.units import fused_units


def no_fusion(graph: ScheduleGraph, profiler: Profiler) -> Partition:
    """Every operation by itself, in file order."""
    return Partition(tuple((node,) for node in range(len(graph))))


def elementwise(graph: ScheduleGraph, profiler: Profiler) -> Partition:
    """Elementwise operations with their producers, and nothing else."""
    return Partition(fused_units(graph).groups)
