"""Local improvement of a choice: hold a few nodes, decide all others anew and exactly.

This heuristic is not in the paper: NeoCPU's PBQP (section 3.3.2) keeps what RN decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.problem.solution import is_closed
from tvm_neocpu.global_search.simplify.reductions import fix, reduce_low_degree

# For each node, the place of its chosen candidate among those that remain.
Places: TypeAlias = dict[int, int]

# A descent ends after this many blocks in a row without improvement.
IDLE_BLOCKS = 3


def improve(
    graph: CostGraph,
    places: Places,
    bound: float,
    deadline: Deadline,
    kicks: int,
    seed: int = 0,
) -> Places:
    """A choice that costs at most as much: one descent from `places`, then one from every kick.

    A kick gives a random candidate to random nodes of the best choice. The number of these nodes is
    random too, so kicks lead near and far. The deadline ends the improvement, and so does a cost
    that meets `bound`, a lower bound on every choice.
    """
    rng = np.random.default_rng(seed)
    best = descend(graph, places, deadline, rng)
    cost = graph.cost(best)
    for _ in range(kicks):
        if deadline.passed or is_closed(cost, bound):
            break
        other = descend(graph, kick(graph, best, rng), deadline, rng)
        other_cost = graph.cost(other)
        if other_cost < cost:
            best, cost = other, other_cost
    return best


def kick(graph: CostGraph, places: Places, rng: np.random.Generator) -> Places:
    """The choice with random candidates at a random part of its nodes."""
    share = rng.random()
    picked = [i for i in graph.costs if rng.random() < share]
    return places | {i: int(rng.integers(graph.costs[i].size)) for i in picked}


def descend(
    graph: CostGraph, places: Places, deadline: Deadline, rng: np.random.Generator
) -> Places:
    """Improve single nodes until none gains, then random blocks until IDLE_BLOCKS gain nothing."""
    best = improve_single(graph, places)
    cost = graph.cost(best)
    idle = 0
    while idle < IDLE_BLOCKS and not deadline.passed:
        order = rng.permutation(np.array(list(graph.costs), dtype=np.intp)).tolist()
        other = improve_block(graph, best, order)
        other_cost = graph.cost(other)
        idle = 0 if other_cost < cost else idle + 1
        if other_cost < cost:
            best, cost = other, other_cost
    return best


def improve_single(graph: CostGraph, places: Places) -> Places:
    """Give each node its best candidate beside its neighbours, until no node changes."""
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
    """Hold some nodes at their places and decide all others exactly.

    Low-degree reductions take out nodes. Where none applies, the next node of `order` is held, and
    the reductions go on. In a clique all nodes but three are held; on a chain or in a residual
    block none is.
    """
    block = graph.part(graph.costs)
    reduce_low_degree(block)
    for node in order:
        if node in block.costs:
            reduce_low_degree(block, fix(block, node, places[node]))
    return graph.to_places(block.complete({}))
