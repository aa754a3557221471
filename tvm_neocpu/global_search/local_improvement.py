"""Improve a choice by re-deciding some nodes while the others stay."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tvm_neocpu.global_search.cost_graph import CostGraph
from tvm_neocpu.global_search.limits import Deadline
from tvm_neocpu.global_search.problem import Costs
from tvm_neocpu.global_search.reductions import reduce_low_degree

Places = dict[int, int]


def improve(
    graph: CostGraph, places: Places, deadline: Deadline, rounds: int, seed: int = 0
) -> Places:
    """A choice that costs no more: single nodes until none can gain, then random forests of them.

    places: a finite choice among the remaining candidates. rounds: how many forests in a row may
    bring nothing before it ends. Stops at the deadline too.
    """
    rng = np.random.default_rng(seed)
    places = improve_single(graph, places)
    cost = graph.cost(places)
    idle = 0
    while idle < rounds and not deadline.passed:
        order = [int(i) for i in rng.permutation(list(graph.costs))]
        moved = improve_block(graph, places, induced_forest(graph, order))
        moved_cost = graph.cost(moved)
        idle = 0 if moved_cost < cost else idle + 1
        if moved_cost < cost:
            places, cost = moved, moved_cost
    return places


def improve_single(graph: CostGraph, places: Places) -> Places:
    """Give each node its best candidate beside its neighbours', until that changes nothing."""
    places = dict(places)
    waiting = dict.fromkeys(graph.costs)
    while waiting:
        node, _ = waiting.popitem()
        total = beside(graph, node, graph.edges[node], places)
        best = int(total.argmin())
        if not total[best] < total[places[node]]:
            continue
        places[node] = best
        waiting.update(dict.fromkeys(graph.edges[node]))
    return places


def improve_block(graph: CostGraph, places: Places, block: list[int]) -> Places:
    """Re-decide the nodes of a block together; exact if low-degree reductions empty it."""
    part = graph.part(block)
    for node in block:
        outside = [j for j in graph.edges[node] if j not in part.costs]
        part.costs[node] = beside(graph, node, outside, places)
    reduce_low_degree(part)
    return places | graph.to_places(part.complete({}))


def beside(graph: CostGraph, node: int, neighbours: Iterable[int], places: Places) -> Costs:
    """A node's costs plus those of its edges to neighbours that stay."""
    total = graph.costs[node]
    for j in neighbours:
        total = total + graph.edges[node][j][:, places[j]]
    return total


def induced_forest(graph: CostGraph, order: list[int]) -> list[int]:
    """Nodes taken greedily in the given order so that no circle closes among them."""
    tree: dict[int, int] = {}

    def root(node: int) -> int:
        while tree[node] != node:
            tree[node] = tree[tree[node]]
            node = tree[node]
        return node

    for node in order:
        roots = [root(j) for j in graph.edges[node] if j in tree]
        if len(set(roots)) < len(roots):
            continue
        tree[node] = node
        tree.update(dict.fromkeys(roots, node))
    return list(tree)
