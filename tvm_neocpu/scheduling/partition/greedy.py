"""Halide's greedy merging: begin with units, merge the pair of groups that saves most, repeat.

After Mullapudi et al. 2016, "Automatically scheduling Halide image processing pipelines", section
3.2: a pair is a group and one that reads it. A merge that would close a cycle is not one. Each
merge prices the new group with all its neighbours anew, so that a network which fits the buffer
whole would take steps with the square of its nodes: groups have LARGEST nodes at most.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

from tvm_neocpu.scheduling.graph.price import Profiler
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.partition.partition import Group, Partition
from tvm_neocpu.scheduling.partition.units import fused_units

# The longest group of the zoo has 212 nodes (NASNet-A mobile on nvdla-large).
LARGEST = 256


def greedy(graph: ScheduleGraph, profiler: Profiler) -> Partition:
    """Merge while a merge saves something."""
    merging = _Merging(graph, profiler)
    merging.run()
    return Partition(merging.groups(), merging.evaluations)


class _Merging:
    """Groups by number; a merged group gets a new one, so that old pairs are known as stale."""

    def __init__(self, graph: ScheduleGraph, profiler: Profiler) -> None:
        units = fused_units(graph)
        self._profiler = profiler
        self._place = {n: at for at, n in enumerate(n for unit in units.groups for n in unit)}
        self._members: dict[int, Group] = dict(enumerate(units.groups))
        self._before = {at: set(found) for at, found in enumerate(units.preds)}
        self._after: dict[int, set[int]] = {at: set() for at in self._members}
        for at, found in enumerate(units.preds):
            for source in found:
                self._after[source].add(at)
        self._numbers = count(len(self._members))
        self.evaluations = 0
        self._known: dict[Group, float] = {}
        self._costs = {at: self._cost(group) for at, group in self._members.items()}
        self._queue: list[tuple[float, int, int]] = []

    def run(self) -> None:
        for at in list(self._members):
            self._offer((at, reader) for reader in self._after[at])
        while self._queue:
            _, source, reader = heapq.heappop(self._queue)
            alive = source in self._members and reader in self._members
            if alive and not self._closes_a_cycle(source, reader):
                self._merge(source, reader)

    def groups(self) -> tuple[Group, ...]:
        """The groups in an order in which they can run."""
        missing = {at: len(found) for at, found in self._before.items()}
        ready = [(self._first(at), at) for at, count in missing.items() if not count]
        heapq.heapify(ready)
        order: list[Group] = []
        while ready:
            _, at = heapq.heappop(ready)
            order.append(self._members[at])
            for reader in self._after[at]:
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, (self._first(reader), reader))
        return tuple(order)

    def _first(self, at: int) -> int:
        return self._place[self._members[at][0]]

    def _offer(self, pairs: Iterator[tuple[int, int]]) -> None:
        for source, reader in pairs:
            if len(self._members[source]) + len(self._members[reader]) > LARGEST:
                continue
            saved = self._costs[source] + self._costs[reader]
            saved -= self._cost(self._together(source, reader))
            if saved > 0:
                heapq.heappush(self._queue, (-saved, source, reader))

    def _together(self, source: int, reader: int) -> Group:
        both = self._members[source] + self._members[reader]
        return tuple(sorted(both, key=lambda node: self._place[node]))

    def _cost(self, group: Group) -> float:
        if group not in self._known:
            self.evaluations += 1
            self._known[group] = self._profiler.price(group).cost
        return self._known[group]

    def _closes_a_cycle(self, source: int, reader: int) -> bool:
        """Whether another path leads from one to the other.

        Nothing that begins behind the reader's last node leads to it.
        """
        seen, end = {reader}, self._place[self._members[reader][-1]]
        pending = [at for at in self._after[source] if at != reader]
        while pending:
            at = pending.pop()
            if at == reader:
                return True
            if at not in seen and self._first(at) < end:
                seen.add(at)
                pending += self._after[at]
        return False

    def _merge(self, source: int, reader: int) -> None:
        new = next(self._numbers)
        self._members[new] = self._together(source, reader)
        self._costs[new] = self._cost(self._members[new])
        self._before[new] = (self._before[source] | self._before[reader]) - {source, reader}
        self._after[new] = (self._after[source] | self._after[reader]) - {source, reader}
        for old in (source, reader):
            del self._members[old], self._costs[old]
            for other in self._before.pop(old):
                self._after.get(other, set()).discard(old)
            for other in self._after.pop(old):
                self._before.get(other, set()).discard(old)
        for other in self._before[new]:
            self._after[other].add(new)
        for other in self._after[new]:
            self._before[other].add(new)
        self._offer((other, new) for other in sorted(self._before[new]))
        self._offer((new, other) for other in sorted(self._after[new]))
