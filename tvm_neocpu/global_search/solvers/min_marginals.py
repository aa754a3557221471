"""Min-marginals: for each candidate of each node, the cost of the best choice that takes it.

    up      elimination as in dp.py: the best cost of what was eliminated, over each frontier
    down    in reverse order: the best cost of everything else, over the same frontiers

Both together give the optimum under every single candidate for the work of two eliminations. This
is min-sum propagation on a junction tree (Shafer and Shenoy, 1990).
"""

from __future__ import annotations

import math

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem
from tvm_neocpu.global_search.simplify.reductions import fix_single
from tvm_neocpu.global_search.solvers.dp import Table, spread
from tvm_neocpu.global_search.solvers.elimination_order import plan_elimination

# Entries of the joint sums of all nodes together: less than a second; each takes at most 128 MiB.
MAX_WORK = 1 << 24


def min_marginals(problem: LayoutProblem, max_work: float = MAX_WORK) -> tuple[Costs, ...] | None:
    """`out[i][x]` is the min cost of a choice in which node `i` takes candidate `x`.

    It is +inf if every such choice is forbidden. Returns None if the joint sums have more than
    `max_work` entries.
    """
    tree = _summed_up(problem, max_work)
    if tree is None:
        return None
    if math.isinf(tree.total):
        return tuple(np.full_like(costs, np.inf) for costs in problem.node_costs)
    tree.send_down()
    alone = np.array([tree.total])  # nodes with a single candidate were fixed
    return tuple(tree.marginals.get(i, alone) for i in range(len(problem)))


def min_cost(problem: LayoutProblem, max_work: float = MAX_WORK) -> float | None:
    """The cost of the optimum, +inf if every choice is forbidden.

    Returns None if the joint sums have more than `max_work` entries.
    """
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
    """The clusters of an elimination: each node with its frontier, and the tables over them."""

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
        """The clusters of an order: each table belongs to the first of its nodes to go."""
        tree = cls(order, graph.constant)
        for node in order:
            tree.tables[node].append(Table((node,), graph.costs[node]))
        for i, j, matrix in graph.edge_list():
            first = tree.turn[i] < tree.turn[j]
            table = Table((i, j), matrix) if first else Table((j, i), matrix.T)
            tree.tables[table.scope[0]].append(table)
        return tree

    def send_up(self) -> None:
        """In the order of elimination: the best cost so far over each node's frontier."""
        for node in self.order:
            cluster = self._sum(node)
            best = Table(cluster.scope[1:], np.asarray(cluster.values.min(axis=0)))
            self.up[node] = best
            if best.scope:
                self.children[best.scope[0]].append(node)
            else:
                self.total += float(best.values)

    def send_down(self) -> None:
        """In reverse order: the best cost of everything else over the same frontiers."""
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
        """The sum of the tables that are known over the node's cluster by now."""
        tables = [*self.tables[node], *(self.up[child] for child in self.children[node])]
        if node in self.down:
            tables.append(self.down[node])
        scope = tuple(sorted({i for t in tables for i in t.scope}, key=self.turn.__getitem__))
        terms = sorted((spread(table, scope) for table in tables), key=lambda term: term.size)
        return Table(scope, sum(terms[1:], start=terms[0]))


def _without(cluster: Table, own: Table) -> Table:
    """The best cost of a cluster over the scope of one of its terms, without that term."""
    gone = tuple(axis for axis, i in enumerate(cluster.scope) if i not in own.scope)
    best = cluster.values.min(axis=gone)
    # An infinite term forbids the entry, so the rest may have any value there.
    known = np.isfinite(own.values)
    rest = np.zeros_like(best)
    np.subtract(best, own.values, out=rest, where=known)
    return Table(own.scope, rest)
