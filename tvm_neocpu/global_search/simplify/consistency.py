"""Arc consistency: drop candidates that go with no candidate of some neighbour.

edge (0, 1)      [[inf, inf],     candidate 0 of node 0 goes with none of node 1: drop it
                  [0,   inf]]     and candidate 1 of node 1 goes with none of node 0: drop it
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph


@dataclass(frozen=True)
class Wipeout:
    """A node without a finite candidate, and the neighbour that forbids its last ones.

    `neighbour` is None if the node's own costs are all infinite.
    """

    node: int
    neighbour: int | None = None


def drop_impossible(graph: CostGraph, start: Iterable[int] | None = None) -> Wipeout | None:
    """Drop every candidate with an infinite cost, or with an infinite row on some edge.

    A dropped candidate may leave a neighbour's candidate without a partner; such nodes are checked
    again. Returns None if every node keeps a candidate, else the node that was found to keep none.

    start: the nodes to check first, those whose costs or edges changed; by default all.
    """
    waiting = deque(graph.costs if start is None else start)
    queued = set(waiting)
    while waiting:
        node = waiting.popleft()
        queued.discard(node)
        keep = np.isfinite(graph.costs[node])
        if not keep.any():
            return Wipeout(node)
        for j, matrix in graph.edges[node].items():
            keep = keep & np.isfinite(matrix.min(axis=1))
            if not keep.any():
                return Wipeout(node, j)
        if keep.all():
            continue
        graph.restrict(node, keep)
        fresh = [j for j in graph.edges[node] if j not in queued]
        waiting.extend(fresh)
        queued.update(fresh)
    return None
