"""Every order of a graph, to check the others on tiny ones."""

from __future__ import annotations

from collections.abc import Iterator

from tvm_neocpu.scheduling.graph.live import peak_bytes
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph


def all_orders(graph: ScheduleGraph) -> Iterator[tuple[int, ...]]:
    """All topological orders: up to ``n!`` of them."""
    yield from _completions(graph, ())


def brute(graph: ScheduleGraph) -> tuple[int, ...]:
    """The first order with the smallest peak."""
    return min(all_orders(graph), key=lambda order: peak_bytes(graph, order))


def _completions(graph: ScheduleGraph, begun: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(begun) == len(graph):
        yield begun
        return
    for node in range(len(graph)):
        if node not in begun and set(graph.preds[node]) <= set(begun):
            yield from _completions(graph, (*begun, node))
