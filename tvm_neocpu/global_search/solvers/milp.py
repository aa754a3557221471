"""Branch and cut by HiGHS, through SciPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.problem import LayoutProblem
from tvm_neocpu.global_search.problem.solution import Solution, bounded, proven
from tvm_neocpu.global_search.simplify.consistency import drop_impossible
from tvm_neocpu.global_search.simplify.reductions import fix_single
from tvm_neocpu.global_search.solvers.linear_program import linearise

# HiGHS compares with absolute tolerances of 1e-6 and 1e-7: costs in microseconds would all look
# alike to it, so the largest is scaled to this.
LARGEST_COEFFICIENT = 1e4
# Of the largest cost; what HiGHS's tolerances can add up to.
TOLERANCE = 1e-7
# Each pair of candidates is a variable; four million take HiGHS some 4 GB.
MAX_PAIRS = 4_000_000

HIGHS_OPTIMAL, HIGHS_INFEASIBLE = 0, 2


@dataclass(frozen=True)
class MilpResult:
    """What HiGHS found: labels (None if there are none), a bound, and whether it finished.

    `chosen is None` and `finished` together say that nothing satisfies the graph.
    """

    chosen: dict[int, int] | None
    lower_bound: float
    finished: bool


def solve_milp(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """The optimum, or the best by the deadline; None if every choice is forbidden.

    Raises SearchLimitError if there is no choice by the deadline, or more than MAX_PAIRS pairs.
    """
    graph = CostGraph.of(problem)
    if drop_impossible(graph) is not None:
        return None
    fix_single(graph)
    if count_pairs(graph) > MAX_PAIRS:
        raise SearchLimitError(f"milp: more than {MAX_PAIRS} pairs of candidates; use 'auto'")
    result = branch_and_cut(graph, deadline)
    if result.chosen is None and result.finished:
        return None
    if result.chosen is None:
        raise SearchLimitError("milp: no choice was found in time; raise the limit or use 'auto'")
    chosen = graph.complete(result.chosen)
    if result.finished:
        return proven(problem, chosen, "milp")
    return bounded(problem, chosen, result.lower_bound, "milp")


def count_pairs(graph: CostGraph) -> int:
    """Pairs of candidates over all edges: the `y` variables, at most."""
    return sum(matrix.size for _, _, matrix in graph.edge_list())


def branch_and_cut(graph: CostGraph, deadline: Deadline) -> MilpResult:
    """Solve what is left of a graph, which has to be arc consistent."""
    if not graph.costs:
        return MilpResult({}, graph.constant, finished=True)
    program = linearise(graph)
    largest = float(program.objective.max())
    scale = LARGEST_COEFFICIENT / largest if largest > 0 else 1.0
    answer = optimize.milp(
        program.objective * scale,
        integrality=program.integrality,
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(program.matrix, program.sums, program.sums),
        options={"time_limit": deadline.remaining, "mip_rel_gap": 0.0},
    )
    dual = answer.mip_dual_bound
    bound = program.offset
    if dual is not None and np.isfinite(dual):
        bound += max(0.0, float(dual)) / scale
    if answer.x is None:
        return MilpResult(None, bound, finished=answer.status == HIGHS_INFEASIBLE)
    places = program.places(graph, answer.x)
    closed = graph.cost(places) - bound <= TOLERANCE * largest
    finished = answer.status == HIGHS_OPTIMAL and closed
    return MilpResult(graph.to_labels(places), bound, finished)
