"""What a partitioner returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm_neocpu.scheduling.graph.price import Profiler
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph

Group = tuple[int, ...]


@dataclass(frozen=True)
class Partition:
    """Groups in the order in which they run; nodes of a group in a topological order.

    ``evaluations``: how often the profiler was asked.
    """

    groups: tuple[Group, ...]
    evaluations: int = 0

    def is_valid(self, graph: ScheduleGraph) -> bool:
        """Whether every node is in one group, behind all that it reads."""
        return graph.is_order([node for group in self.groups for node in group])

    def cost(self, profiler: Profiler) -> float:
        """What the groups cost together; infinite if one is impossible."""
        return sum(profiler.price(group).cost for group in self.groups)


Partitioner = Callable[[ScheduleGraph, Profiler], Partition]
