"""Every partition of a tiny graph, to check the others."""

from __future__ import annotations

from collections.abc import Iterator

from tvm_neocpu.scheduling.graph.price import Profiler
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.partition.partition import Group, Partition


def brute(graph: ScheduleGraph, profiler: Profiler) -> Partition:
    """The cheapest of all partitions whose groups can run one after the other."""
    return min(all_partitions(graph), key=lambda partition: partition.cost(profiler))


def all_partitions(graph: ScheduleGraph) -> Iterator[Partition]:
    """All of them, by set partitions: the Bell number of the nodes is the count."""
    for groups in _set_partitions(len(graph)):
        order = _order(graph, groups)
        if order is not None:
            yield Partition(order)


def _set_partitions(count: int) -> Iterator[list[Group]]:
    if not count:
        yield []
        return
    for smaller in _set_partitions(count - 1):
        yield [*smaller, (count - 1,)]
        for at, group in enumerate(smaller):
            yield [*smaller[:at], (*group, count - 1), *smaller[at + 1 :]]


def _order(graph: ScheduleGraph, groups: list[Group]) -> tuple[Group, ...] | None:
    """The groups in an order in which they can run; ``None`` if they wait for each other."""
    left, done, order = list(groups), set[int](), list[Group]()
    while left:
        able = [g for g in left if all({*graph.preds[n]} <= done | {*g} for n in g)]
        if not able:
            return None
        left.remove(able[0])
        order.append(able[0])
        done.update(able[0])
    return tuple(order)
