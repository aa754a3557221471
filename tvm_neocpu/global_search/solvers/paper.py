"""NeoCPU's own method (section 3.3.2): dynamic programming, or PBQP if that takes too long."""

from __future__ import annotations

import math
from dataclasses import replace

from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.dp import solve_dp
from tvm_neocpu.global_search.solvers.pbqp import solve_pbqp


def solve_paper(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """The optimum if dynamic programming ends by the deadline, else the answer of PBQP.

    PBQP starts at once if the tables of dynamic programming exceed their size limit. It has no
    deadline here. Returns None if every choice is forbidden.
    """
    try:
        solution = solve_dp(problem, deadline)
    except SearchLimitError:
        solution = solve_pbqp(problem, Deadline.after(math.inf))
    return None if solution is None else replace(solution, method=f"paper ({solution.method})")
