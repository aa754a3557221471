"""The optimum among marked candidates: what a decision costs when everything else adapts to it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import Mask
from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.solvers.auto import solve_auto
from tvm_neocpu.global_search.solvers.dp import solve_dp


def restricted(problem: LayoutProblem, keep: Mapping[int, Mask]) -> LayoutProblem:
    """The problem in which the nodes of `keep` may take their marked candidates only.

    keep: for some nodes `i` a mask of shape `(k_i,)`.
    """
    node_costs = list(problem.node_costs)
    for node, mask in keep.items():
        node_costs[node] = np.where(mask, node_costs[node], np.inf)
    return LayoutProblem(node_costs, problem.edge_costs, names=problem.names)


def solve_among(
    problem: LayoutProblem, keep: Mapping[int, Mask], deadline: Deadline
) -> Solution | None:
    """The best choice that takes a marked candidate at each node of `keep`.

    Returns None if every such choice is forbidden. The method is "dp", or "auto" if the tables of
    "dp" are too large; `optimal` says whether the choice is proven. Raises SearchLimitError if no
    finite choice was found by the deadline.
    """
    fewer = restricted(problem, keep)
    try:
        # One elimination is cheapest; the reductions of "auto" pay if its tables are too large.
        return solve_dp(fewer, deadline)
    except SearchLimitError:
        return solve_auto(fewer, deadline)
