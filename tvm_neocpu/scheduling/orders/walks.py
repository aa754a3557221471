"""Depth first and breadth first: what a compiler does that does not think of memory."""

from __future__ import annotations

from collections import deque

from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph


def depth_first(graph: ScheduleGraph) -> tuple[int, ...]:
    """Of the nodes that are ready, the one that became ready last."""
    return _walk(graph, newest=True)


def breadth_first(graph: ScheduleGraph) -> tuple[int, ...]:
    """Of the nodes that are ready, the one that became ready first."""
    return _walk(graph, newest=False)


def _walk(graph: ScheduleGraph, newest: bool) -> tuple[int, ...]:
    missing = [len(sources) for sources in graph.preds]
    starts = [node for node in range(len(graph)) if not missing[node]]
    ready = deque(reversed(starts) if newest else starts)
    order: list[int] = []
    while ready:
        node = ready.pop() if newest else ready.popleft()
        order.append(node)
        readers = graph.succs[node]
        for reader in reversed(readers) if newest else readers:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return tuple(order)
