"""What each candidate of each node costs in the whole: elimination there, and back again.

Eliminating nodes (dp.py) leaves with every frontier the best cost of what lies behind it. Handing
the best cost of the rest the other way gives, for two eliminations' work, the optimum under every
single candidate: min-sum propagation on a junction tree (Shafer and Shenoy, 1990).
"""

from __future__ import annotations

import math

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem
from tvm_neocpu.global_search.simplify.reductions import fix_single
from tvm_neocpu.global_search.solvers.dp import Table, spread
from tvm_neocpu.global_search.solvers.elimination_order import plan_elimination

# Of the joint sums of all nodes together: below a second and, one by one, 128 MiB.
MAX_WORK = 1 << 24


def min_marginals(problem: LayoutProblem, max_work: float = MAX_WORK) -> tuple[Costs, ...] | None:
    """`out[i][x]` is the least cost of a choice in which node `i` takes candidate `x`.

    +inf where no finite choice does; None if the sums to form exceed `max_work`.
    """
    tree = _summed_up(problem, max_work)
    if tree is None:
        return None
    if math.isinf(tree.total):
        return tuple(np.full_like(costs, np.inf) for costs in problem.node_costs)
    tree.send_down()
    alone = np.array([tree.total])  # of nodes with a single candidate
    return tuple(tree.marginals.get(i, alone) for i in range(len(problem)))


def min_cost(problem: LayoutProblem, max_work: float = MAX_WORK) -> float | None:
    """The optimum's cost, +inf without a finite choice; None as above."""
    tree = _summed_up(problem, max_work)
    return None if tree is None else tree.total


def _summed_up(problem: LayoutProblem, max_work: float) -> _Tree | None:
    graph = CostGraph.of(problem)
    fix_single(graph)
    plan = plan_elimination(graph, int(max_work), max_work)
    if plan is None:
        return None
    tree = _Tree.of(graph, plan.order)
    tree.send_up()
    return tree


class _Tree:
    """The eliminated nodes' clusters: a node, its frontier, and the tables over them."""

    def __init__(self, order: tuple[int, ...], constant: float) -> None:
        self.order = order
        self.constant = constant
        self.turn = {node: k for k, node in enumerate(order)}
        self.tables: dict[int, list[Table]] = {node: [] for node in order}
        self.children: dict[int, list[int]] = {node: [] for node in order}
        self.up: dict[int, Table] = {}
        self.down: dict[int, Table] = {}
        self.total = constant
        self.marginals: dict[int, Costs] = {}

    @classmethod
    def of(cls, graph: CostGraph, order: tuple[int, ...]) -> _Tree:
        tree = cls(order, graph.constant)
        for node in order:
            tree.tables[node].append(Table((node,), graph.costs[node]))
        for i, j, matrix in graph.edge_list():
            first = tree.turn[i] < tree.turn[j]
            table = Table((i, j), matrix) if first else Table((j, i), matrix.T)
            tree.tables[table.scope[0]].append(table)
        return tree

    def send_up(self) -> None:
        """In the order of elimination: the best cost so far, over each node's frontier."""
        for node in self.order:
            cluster = self._sum(node)
            best = Table(cluster.scope[1:], np.asarray(cluster.values.min(axis=0)))
            self.up[node] = best
            if best.scope:
                self.children[best.scope[0]].append(node)
            else:
                self.total += float(best.values)

    def send_down(self) -> None:
        """In the reverse order: the best cost of everything else, over the same frontiers."""
        for node in reversed(self.order):
            if not self.up[node].scope:
                rest = self.total - float(self.up[node].values)
                self.down[node] = Table((), np.array(rest))
            cluster = self._sum(node)
            others = tuple(range(1, cluster.values.ndim))
            self.marginals[node] = cluster.values.min(axis=others)
            for child in self.children[node]:
                self.down[child] = _without(cluster, self.up[child])

    def _sum(self, node: int) -> Table:
        """All that is known over the node's cluster by now."""
        tables = [*self.tables[node], *(self.up[child] for child in self.children[node])]
        if node in self.down:
            tables.append(self.down[node])
        scope = tuple(sorted({i for t in tables for i in t.scope}, key=self.turn.__getitem__))
        terms = sorted((spread(table, scope) for table in tables), key=lambda term: term.size)
        return Table(scope, sum(terms[1:], start=terms[0]))


def _without(cluster: Table, own: Table) -> Table:
    """The cluster's best over the scope of one of its terms, with that term left out again."""
    gone = tuple(axis for axis, i in enumerate(cluster.scope) if i not in own.scope)
    best = cluster.values.min(axis=gone)
    # Where the term is infinite nothing helps, whatever the rest costs.
    known = np.isfinite(own.values)
    rest = np.zeros_like(best)
    np.subtract(best, own.values, out=rest, where=known)
    return Table(own.scope, rest)
