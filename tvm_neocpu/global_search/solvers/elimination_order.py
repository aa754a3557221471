"""An order of elimination in which the tables of dynamic programming stay small.

a - b - c - d    order a, b, c, d: every table is over one node at most
                 order b, c, a, d: the table of b is over (a, c), that of c over (a, d)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tvm_neocpu.global_search.problem.cost_graph import CostGraph


@dataclass(frozen=True)
class EliminationPlan:
    """An order of nodes, the entries of all its tables, and the entries of all sums it forms."""

    order: tuple[int, ...]
    entries: int
    work: int


@dataclass
class _Frontiers:
    """The neighbours of each remaining node while nodes are eliminated, without costs."""

    sizes: dict[int, int]
    neighbours: dict[int, set[int]]
    bits: dict[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self.bits = {i: math.log2(size) for i, size in self.sizes.items()}

    def table_bits(self, node: int) -> float:
        """log2 of the entries of the table that eliminating the node leaves."""
        return sum(self.bits[j] for j in self.neighbours[node])

    def states(self, node: int) -> float:
        """log2 of the sums to form: one per joint choice of the node and its frontier."""
        return self.table_bits(node) + self.bits[node]

    def fill(self, node: int) -> float:
        """How many pairs of the frontier have no edge yet."""
        frontier = self.neighbours[node]
        return sum(len(frontier) - 1 - len(frontier & self.neighbours[j]) for j in frontier) / 2

    def eliminate(self, node: int) -> set[int]:
        """Remove a node and connect its neighbours to each other; return them, the frontier."""
        frontier = self.neighbours.pop(node)
        for j in frontier:
            self.neighbours[j] |= frontier
            self.neighbours[j] -= {j, node}
        return frontier


def plan_elimination(
    graph: CostGraph, max_entries: int, max_work: float = math.inf
) -> EliminationPlan | None:
    """The cheaper of two greedy orders, min-states and min-fill; None if both exceed a limit.

    max_entries: limit on the entries of all tables together, because all are kept to the end.
    max_work: limit on the sums formed.
    """
    plans = [_greedy(graph, rule, max_entries) for rule in (_Frontiers.states, _Frontiers.fill)]
    fitting = [p for p in plans if p is not None and p.work <= max_work]
    return min(fitting, key=lambda p: p.work, default=None)


def _greedy(
    graph: CostGraph, rule: Callable[[_Frontiers, int], float], max_entries: int
) -> EliminationPlan | None:
    frontiers = _Frontiers(
        {i: costs.size for i, costs in graph.costs.items()},
        {i: set(links) for i, links in graph.edges.items()},
    )
    max_bits = math.log2(max_entries)

    def score(node: int) -> float:
        # A table beyond the limit is never taken, and its fill is slow to count.
        return rule(frontiers, node) if frontiers.table_bits(node) <= max_bits else math.inf

    scores = {node: score(node) for node in graph.costs}
    order: list[int] = []
    entries = work = 0
    while scores:
        node = min(scores, key=scores.__getitem__)
        if math.isinf(scores.pop(node)):
            return None
        table = math.prod(frontiers.sizes[j] for j in frontiers.neighbours[node])
        entries += table
        if entries > max_entries:
            return None
        work += table * frontiers.sizes[node]
        order.append(node)
        scores |= {j: score(j) for j in frontiers.eliminate(node)}
    return EliminationPlan(tuple(order), entries, work)
