"""The reductions of PBQP: R0, RI, RII and merging lose nothing, RN decides.

After Scholz and Eckstein (register allocation with PBQP, 2002) and Hames and Scholz (2006), which
NeoCPU (section 3.3.2) takes up. Each takes nodes out of a CostGraph and leaves on its trail what
is needed to choose for them afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import Costs

# Entries of a three-way sum held at once: 8 MiB, so that wide candidate lists stay in memory.
BLOCK_ENTRIES = 1 << 20


def min_plus(left: Costs, right: Costs) -> Costs:
    """`out[b, c] = min over a of left[a, b] + right[a, c]`."""
    rows = max(1, BLOCK_ENTRIES // (left.shape[1] * right.shape[1]))
    out = np.full((left.shape[1], right.shape[1]), np.inf)
    for a in range(0, left.shape[0], rows):
        sums = left[a : a + rows, :, None] + right[a : a + rows, None, :]
        np.minimum(out, sums.min(axis=0), out=out)
    return out


def reduce_low_degree(graph: CostGraph, start: Iterable[int] | None = None) -> set[int]:
    """Take out nodes of degree 0, 1, 2 (R0, RI, RII) until none is left; exact.

    start: the nodes whose degree may have fallen; all unless told. Returns the nodes that are left
    and whose costs or edges have changed. If a whole component has no finite choice, the graph's
    constant becomes +inf.
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
    """Decide for a node's `place`-th candidate and charge its edges to the neighbours (RN).

    Exact for a node that has only one. Returns the neighbours it had.
    """
    neighbours = tuple(graph.edges[node])
    for j in neighbours:
        graph.add_cost(j, graph.edges[node][j][place])
    graph.constant += float(graph.costs[node][place])
    graph.restrict(node, np.arange(graph.costs[node].size) == place)
    graph.take_out(node, decided_by=())
    return neighbours


def fix_single(graph: CostGraph) -> None:
    """Take out every node that has one candidate; exact."""
    for node in [i for i, costs in graph.costs.items() if costs.size == 1]:
        fix(graph, node, 0)


def merge_determined(graph: CostGraph) -> bool:
    """Merge every node whose candidate follows from a neighbour's into that neighbour; exact.

    Such is a join that must have its input's layout: 0 on the diagonal, infinity elsewhere. The
    merged node's edges pass to the neighbour, so hubs of joins become one node. Returns whether
    any was merged. The graph has to be arc consistent.
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
    """A neighbour each of whose candidates leaves the node exactly one."""
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
