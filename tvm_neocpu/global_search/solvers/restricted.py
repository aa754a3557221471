"""The best choice among fewer candidates: what a decision costs when everything else adapts."""

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
    """The problem with every candidate forbidden that is not marked at a node of `keep`."""
    node_costs = list(problem.node_costs)
    for node, mask in keep.items():
        node_costs[node] = np.where(mask, node_costs[node], np.inf)
    return LayoutProblem(node_costs, problem.edge_costs, names=problem.names)


def solve_among(
    problem: LayoutProblem, keep: Mapping[int, Mask], deadline: Deadline
) -> Solution | None:
    """The best choice that takes a marked candidate at each node of `keep`; None if none is finite.

    Raises SearchLimitError if none was found by the deadline.
    """
    fewer = restricted(problem, keep)
    try:
        # One elimination; the reductions of "auto" only pay for what is too wide for that.
        return solve_dp(fewer, deadline)
    except SearchLimitError:
        return solve_auto(fewer, deadline)
