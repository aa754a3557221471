"""NeoCPU's own method (section 3.3.2): dynamic programming, or PBQP if that takes too long."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.dp import solve_dp
from tvm_neocpu.global_search.solvers.pbqp import solve_pbqp

# Of the time, for dynamic programming; PBQP takes the rest.
DP_SHARE = 0.7


def solve_paper(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """The optimum if dynamic programming ends in its share of the time, else the answer of PBQP.

    PBQP starts at once if the tables of dynamic programming exceed their size limit, and keeps to
    the same deadline. Returns None if every choice is forbidden. Raises SearchLimitError if PBQP
    finds no finite choice by the deadline.
    """
    try:
        solution = solve_dp(problem, deadline.share(DP_SHARE))
    except SearchLimitError:
        solution = solve_pbqp(problem, deadline)
    return None if solution is None else replace(solution, method=f"paper ({solution.method})")
