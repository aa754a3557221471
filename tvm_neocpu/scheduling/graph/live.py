"""What is alive when a graph runs in an order: bytes at each step, the live range of each tensor.

A tensor lives from the step that makes it to the last step that reads it, an output to the end. A
step needs what it reads, what it makes and its workspace at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_neocpu.core.arena import Lifetime
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph


def lifetimes(graph: ScheduleGraph, order: Sequence[int]) -> tuple[Lifetime, ...]:
    """The live range of each node's tensor, by node; steps are places in the order."""
    at = {node: step for step, node in enumerate(order)}
    end = len(order) - 1
    return tuple(
        Lifetime(
            node.out_bytes,
            at[place],
            end if graph.is_output[place] else max(at[reader] for reader in graph.succs[place]),
        )
        for place, node in enumerate(graph.nodes)
    )


def workspaces(graph: ScheduleGraph, order: Sequence[int]) -> tuple[Lifetime, ...]:
    """The workspaces of the nodes that have one, in the order."""
    return tuple(
        Lifetime(graph.nodes[node].work_bytes, step, step)
        for step, node in enumerate(order)
        if graph.nodes[node].work_bytes
    )


def live_bytes(graph: ScheduleGraph, order: Sequence[int]) -> tuple[int, ...]:
    """Bytes alive at each step of the order."""
    change = [0] * (len(order) + 1)
    for life in lifetimes(graph, order):
        change[life.first] += life.size
        change[life.last + 1] -= life.size
    found, alive = [], 0
    for node, delta in zip(order, change, strict=False):
        alive += delta
        found.append(alive + graph.nodes[node].work_bytes)
    return tuple(found)


def peak_bytes(graph: ScheduleGraph, order: Sequence[int]) -> int:
    """The largest live set: no memory is smaller, wherever the tensors lie."""
    return max(live_bytes(graph, order), default=0)


def step_bound(graph: ScheduleGraph) -> int:
    """No order has a smaller peak: some step needs this much for what it reads and makes alone."""
    return max(
        (
            node.out_bytes
            + node.work_bytes
            + sum(graph.nodes[source].out_bytes for source in graph.preds[place])
            for place, node in enumerate(graph.nodes)
        ),
        default=0,
    )
