"""Dynamic programming by bucket elimination (Dechter 1999); exact.

NeoCPU (section 3.3.2, algorithm 2) visits nodes in topological order and keeps the best cost so far
per node and scheme. That is exact on chains. Here the state is the frontier: the remaining nodes
next to those that were eliminated.

    a chain            a - b - c           eliminate a: table over (b)
                                           eliminate b: table over (c), as in the paper
    a residual block   a - b - c, a - c    eliminate b: table over (a, c), two nodes of state
                                           eliminate a: table over (c)

A table holds the best cost so far for every joint choice of its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution, proven
from tvm_neocpu.global_search.simplify.consistency import drop_impossible
from tvm_neocpu.global_search.simplify.reductions import fix_single, merge_determined
from tvm_neocpu.global_search.solvers.elimination_order import EliminationPlan, plan_elimination

# Entries of all tables together: 256 MiB of float64. Four nodes of 64 candidates take half of it.
MAX_ENTRIES = 1 << 25
# Entries of a joint sum in memory at once: 8 MiB of float64.
BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Table:
    """Costs for every joint choice of the nodes in `scope`; `values` has one axis per node."""

    scope: tuple[int, ...]
    values: Costs


def solve_dp(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """The optimum by elimination; None if every choice is forbidden.

    Raises SearchLimitError if the tables would exceed MAX_ENTRIES, and when the deadline passes.
    """
    graph = CostGraph.of(problem)
    if drop_impossible(graph) is not None:
        return None
    merge_determined(graph)  # keeps determined nodes out of the frontiers
    fix_single(graph)
    plan = plan_elimination(graph, MAX_ENTRIES)
    if plan is None:
        raise SearchLimitError(
            f"dp: tables over the frontier would exceed {MAX_ENTRIES} entries; use method='auto'"
        )
    chosen = eliminate(graph, plan, deadline)
    if chosen is None:
        raise SearchLimitError("dp: the time limit has passed; raise it or use method='auto'")
    return proven(problem, graph.complete(chosen), "dp")


def eliminate(graph: CostGraph, plan: EliminationPlan, deadline: Deadline) -> dict[int, int] | None:
    """The label of the best candidate of each remaining node; None if the deadline passes.

    If every choice is forbidden, the returned one costs +inf. Every node must have at least two
    candidates: a table has one axis per node, and NumPy limits the number of axes.
    """
    turn = {node: k for k, node in enumerate(plan.order)}
    buckets: dict[int, list[Table]] = {i: [Table((i,), graph.costs[i])] for i in plan.order}
    for i, j, matrix in graph.edge_list():
        table = Table((i, j), matrix) if turn[i] < turn[j] else Table((j, i), matrix.T)
        buckets[table.scope[0]].append(table)
    for node in plan.order:
        best = _best_over_first(buckets[node], turn, deadline)
        if best is None:
            return None
        if best.scope:
            buckets[best.scope[0]].append(best)
    return graph.to_labels(_choose(plan.order, buckets))


def _best_over_first(tables: list[Table], turn: dict[int, int], deadline: Deadline) -> Table | None:
    """Sum tables that share their first axis, and minimise over it; None after the deadline.

    Every scope is sorted by the order of elimination, so `spread` aligns the axes.
    """
    scope = tuple(sorted({i for table in tables for i in table.scope}, key=turn.__getitem__))
    terms = sorted((spread(table, scope) for table in tables), key=lambda term: term.size)
    shape = np.broadcast_shapes(*(term.shape for term in terms))
    best = np.full(shape[1:], np.inf)
    rows = max(1, BLOCK_ENTRIES // best.size)
    for a in range(0, shape[0], rows):
        if deadline.passed:
            return None
        total = sum((term[a : a + rows] for term in terms[1:]), start=terms[0][a : a + rows])
        np.minimum(best, total.min(axis=0), out=best)
    return Table(scope[1:], best)


def spread(table: Table, scope: tuple[int, ...]) -> Costs:
    """The values with one axis per node of `scope`; an axis that the table lacks has length 1."""
    sizes = dict(zip(table.scope, table.values.shape, strict=True))
    return table.values.reshape([sizes.get(i, 1) for i in scope])


def _choose(order: tuple[int, ...], buckets: dict[int, list[Table]]) -> dict[int, int]:
    """The places of the best choice, in reverse order: each node finds its frontier decided."""
    places: dict[int, int] = {}
    for node in reversed(order):
        seen = [_beside(table, places) for table in buckets[node]]
        places[node] = int(np.sum(seen, axis=0).argmin())
    return places


def _beside(table: Table, places: dict[int, int]) -> Costs:
    """The table along its first axis, with the other nodes at their places."""
    where: tuple[Any, ...] = (slice(None), *(places[j] for j in table.scope[1:]))
    beside: Costs = table.values[where]
    return beside
