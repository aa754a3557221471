"""Drop candidates that another candidate of the same node always beats."""

from __future__ import annotations

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph, Mask
from tvm_neocpu.global_search.problem.layout_problem import Costs

# Entries of the pairwise comparison in memory at once: 8 MiB of float64.
BLOCK_ENTRIES = 1 << 20


def drop_dominated(graph: CostGraph) -> bool:
    """Drop every candidate that costs at least as much as another, whatever the neighbours take.

    This is Goldstein's criterion of dead-end elimination (1994). It is exact. Candidate `a` is
    dropped if some `b` of the same node satisfies

        cost[a] - cost[b] + sum over edges of (min over k of edge[a, k] - edge[b, k]) >= 0

    Returns whether any candidate was dropped.
    """
    waiting = dict.fromkeys(graph.costs)
    dropped = False
    while waiting:
        node, _ = waiting.popitem()
        keep = undominated(graph.costs[node], list(graph.edges[node].values()))
        if keep.all():
            continue
        graph.restrict(node, keep)
        waiting.update(dict.fromkeys(graph.edges[node]))
        dropped = True
    return dropped


def undominated(costs: Costs, links: list[Costs]) -> Mask:
    """Mark the candidates that no other one dominates, as a mask of shape `(k,)`.

    costs: shape `(k,)`. links: one matrix per neighbour, with `k` rows. Of candidates that are
    equal in all costs, one stays.
    """
    with np.errstate(invalid="ignore"):  # inf - inf is nan: it compares false and drops nothing
        advantage = costs[:, None] - costs[None, :]
        for matrix in links:
            advantage = advantage + min_excess(matrix)
    np.fill_diagonal(advantage, -np.inf)
    keep = np.ones(costs.size, dtype=np.bool_)
    # One at a time: two equal candidates dominate each other.
    for a in np.flatnonzero((advantage >= 0).any(axis=1)):
        keep[a] = not (advantage[a][keep] >= 0).any()
    return keep


def min_excess(matrix: Costs) -> Costs:
    """`out[a, b] = min over k of matrix[a, k] - matrix[b, k]`; shape `(rows, rows)`.

    It is -inf if some `k` is forbidden for `b` only. A `k` that is forbidden for both is ignored.
    """
    count, width = matrix.shape
    rows = max(1, BLOCK_ENTRIES // (count * width))
    out = np.empty((count, count))
    with np.errstate(invalid="ignore"):
        for a in range(0, count, rows):
            excess = matrix[a : a + rows, None, :] - matrix[None, :, :]
            # inf - inf is nan, forbidden for both: fmin ignores it.
            out[a : a + rows] = np.fmin.reduce(excess, axis=2)
    return out
