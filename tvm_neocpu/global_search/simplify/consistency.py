"""Arc consistency: drop candidates that no candidate of a neighbour goes with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph


@dataclass(frozen=True)
class Wipeout:
    """A node that lost its last candidate, and the neighbour that took it (None: it had none)."""

    node: int
    neighbour: int | None = None


def drop_impossible(graph: CostGraph, start: Iterable[int] | None = None) -> Wipeout | None:
    """Drop every candidate whose own cost, or whole row of an edge, is infinite.

    start: the nodes whose costs or edges have changed; all unless told. What a dropped candidate
    takes from its neighbours is followed up. None means that every node still has a candidate.
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
