"""The reductions of PBQP: R0, RI, RII and merging are exact, RN decides.

They are those of Scholz and Eckstein (register allocation with PBQP, 2002) and of Hames and Scholz
(2006); NeoCPU (section 3.3.2) uses them. Each takes a node `x` out of a CostGraph:

    R0     x            the min of x's costs is added to the constant
    RI     a - x        each candidate of a pays for the cheapest candidate of x beside it
    RII    a - x - b    each pair of candidates of a and b pays for the cheapest of x beside them
    merge  a = x - b    a's candidate determines x's: x's edges pass to a
    RN     any          one candidate of x is chosen; its rows are added to the neighbours' costs

The graph's trail keeps what is needed to choose for `x` afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import Costs

# Entries of a three-way sum in memory at once: 8 MiB of float64, however many candidates.
BLOCK_ENTRIES = 1 << 20


def min_plus(left: Costs, right: Costs) -> Costs:
    """`out[b, c] = min over a of left[a, b] + right[a, c]`: a matrix product of (min, +)."""
    rows = max(1, BLOCK_ENTRIES // (left.shape[1] * right.shape[1]))
    out = np.full((left.shape[1], right.shape[1]), np.inf)
    for a in range(0, left.shape[0], rows):
        sums = left[a : a + rows, :, None] + right[a : a + rows, None, :]
        np.minimum(out, sums.min(axis=0), out=out)
    return out


def reduce_low_degree(graph: CostGraph, start: Iterable[int] | None = None) -> set[int]:
    """Take out nodes of degree 0, 1 and 2 (R0, RI, RII) until no such node remains; exact.

    Returns the remaining nodes whose costs or edges changed. If a component without remaining nodes
    has no finite choice, the graph's constant becomes +inf.

    start: the nodes whose degree may have fallen; by default all.
    """
    waiting = list(graph.costs if start is None else start)
    touched: set[int] = set()
    while waiting:
        node = waiting.pop()
        if node not in graph.costs or len(graph.edges[node]) > 2:
            continue
        neighbours = tuple(graph.edges[node])
        _reduce(graph, node)
        waiting.extend(neighbours)
        touched.update(neighbours)
    return {node for node in touched if node in graph.costs}


def _reduce(graph: CostGraph, node: int) -> None:
    costs, links = graph.costs[node], list(graph.edges[node].items())
    if not links:  # R0
        graph.constant += float(costs.min())
    elif len(links) == 1:  # RI
        [(j, matrix)] = links
        graph.add_cost(j, (costs[:, None] + matrix).min(axis=0))
    else:  # RII
        [(j, to_j), (k, to_k)] = links
        graph.add_edge(j, k, min_plus(costs[:, None] + to_j, to_k))
    graph.take_out(node)


def fix(graph: CostGraph, node: int, place: int) -> tuple[int, ...]:
    """Decide for the candidate of a node at `place`, and take the node out (RN).

    Its row of every edge is added to the neighbour's costs. Exact if the node has one candidate
    only. Returns the neighbours that the node had.
    """
    neighbours = tuple(graph.edges[node])
    for j in neighbours:
        graph.add_cost(j, graph.edges[node][j][place])
    graph.constant += float(graph.costs[node][place])
    graph.restrict(node, np.arange(graph.costs[node].size) == place)
    graph.take_out(node, decided_by=())
    return neighbours


def fix_single(graph: CostGraph) -> None:
    """Take out every node that has a single candidate; exact."""
    for node in [i for i, costs in graph.costs.items() if costs.size == 1]:
        fix(graph, node, 0)


def merge_determined(graph: CostGraph) -> bool:
    """Merge every node that a neighbour determines into that neighbour; exact.

    A neighbour determines a node if each of its candidates leaves the node exactly one. An example
    is a join that must have the layout of its input:

        edge (input, join)     [[0,   inf],
                                [inf, 0  ]]

    The edges of the merged node pass to the neighbour, so a group of such joins becomes one node.
    Returns whether any node was merged. The graph must be arc consistent.
    """
    waiting = list(graph.costs)
    merged = False
    while waiting:
        node = waiting.pop()
        if node not in graph.costs:
            continue
        decider = _decider(graph, node)
        if decider is None:
            continue
        waiting += [*graph.edges[node]]
        _merge(graph, node, decider)
        merged = True
    return merged


def _decider(graph: CostGraph, node: int) -> int | None:
    """A neighbour that determines the node, if there is one."""
    for j, matrix in graph.edges[node].items():
        if (np.isfinite(matrix).sum(axis=0) == 1).all():
            return j
    return None


def _merge(graph: CostGraph, node: int, decider: int) -> None:
    to_decider = graph.edges[node][decider]
    follows = np.isfinite(to_decider).argmax(axis=0)
    own = graph.costs[node][follows] + to_decider[follows, np.arange(follows.size)]
    graph.add_cost(decider, own)
    for k, matrix in graph.edges[node].items():
        if k != decider:
            graph.add_edge(decider, k, matrix[follows])
    graph.take_out(node, decided_by=(decider,))
