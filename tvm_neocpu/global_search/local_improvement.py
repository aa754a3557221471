"""Improve a choice by re-deciding some nodes while the others stay."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tvm_neocpu.global_search.cost_graph import CostGraph
from tvm_neocpu.global_search.limits import Deadline
from tvm_neocpu.global_search.reductions import fix, reduce_low_degree

Places = dict[int, int]


def improve(
    graph: CostGraph, places: Places, deadline: Deadline, rounds: int, seed: int = 0
) -> Places:
    """A choice that costs no more: single nodes until none can gain, then random blocks of them.

    places: a finite choice among the remaining candidates. rounds: how many blocks in a row may
    bring nothing before it ends. Stops at the deadline too.
    """
    rng = np.random.default_rng(seed)
    places = improve_single(graph, places)
    cost = graph.cost(places)
    idle = 0
    while idle < rounds and not deadline.passed:
        order = [int(i) for i in rng.permutation(list(graph.costs))]
        moved = improve_block(graph, places, order)
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
        total = graph.costs[node]
        for j, matrix in graph.edges[node].items():
            total = total + matrix[:, places[j]]
        best = int(total.argmin())
        if not total[best] < total[places[node]]:
            continue
        places[node] = best
        waiting.update(dict.fromkeys(graph.edges[node]))
    return places


def improve_block(graph: CostGraph, places: Places, order: Iterable[int]) -> Places:
    """Hold as few nodes, in the given order, as it takes to decide all others exactly.

    Low-degree reductions take out what they can; where they are stuck, the next node of the order
    stays as it is. On a grid about a quarter of the nodes are held, in a clique all but three.
    """
    block = graph.part(graph.costs)
    reduce_low_degree(block)
    for node in order:
        if node in block.costs:
            reduce_low_degree(block, fix(block, node, places[node]))
    return graph.to_places(block.complete({}))
