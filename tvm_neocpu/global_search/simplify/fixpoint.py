"""All exact reductions of a cost graph, repeated until none applies."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.simplify.consistency import drop_impossible
from tvm_neocpu.global_search.simplify.dominance import drop_dominated
from tvm_neocpu.global_search.simplify.reductions import (
    fix_single,
    merge_determined,
    reduce_low_degree,
)


def settle(graph: CostGraph, forbidden: bool, changed: Iterable[int] | None = None) -> bool:
    """Alternate arc consistency and R0, RI, RII; False if some node has no finite candidate.

    forbidden: whether the graph may hold infinite costs; without them every graph is consistent.
    changed: the nodes to begin with; by default all.
    """
    touched = set(graph.costs if changed is None else changed)
    while touched:
        if forbidden and drop_impossible(graph, touched) is not None:
            return False
        touched = reduce_low_degree(graph, touched)
    return math.isfinite(graph.constant)


def simplify(graph: CostGraph) -> bool:
    """Repeat `settle`, merging and dropping dominated candidates until nothing changes.

    False if some node has no finite candidate. Every node that remains has at least three
    neighbours and two candidates.
    """
    forbidden = graph.has_forbidden()
    alive = settle(graph, forbidden)
    while alive and graph.costs:
        before = sum(costs.size for costs in graph.costs.values())
        merge_determined(graph)
        drop_dominated(graph)
        fix_single(graph)
        if before == sum(costs.size for costs in graph.costs.values()):
            break
        alive = settle(graph, forbidden)
    return alive
