"""The time of the best network under a condition, such as "node 7 takes option 2"."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tvm_neocpu.global_search.network.layout_graph import LayoutGraph
from tvm_neocpu.global_search.problem.cost_graph import Mask
from tvm_neocpu.global_search.problem.layout_problem import Costs
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.global_search.simplify.split_nodes import split_nodes
from tvm_neocpu.global_search.solvers.min_marginals import min_cost, min_marginals
from tvm_neocpu.global_search.solvers.restricted import restricted, solve_among


class Prices:
    """Prices of many conditions on the same graph, in seconds.

    They are exact and quick while the tables over its frontiers are small. Beyond that each price
    is a search of its own.
    """

    def __init__(self, layout_graph: LayoutGraph) -> None:
        self.problem = layout_graph.problem
        self._narrow = split_nodes(self.problem, _layouts_as_classes(layout_graph))

    def of_all_options(self) -> tuple[Costs, ...] | None:
        """For each node the price of each of its options; None if the tables would be too large."""
        return min_marginals(self._narrow)

    def without(self, node: int, candidate: int, deadline: Deadline) -> Solution | None:
        """Best network in which a node takes another candidate; None if none was found in time."""
        others = np.arange(self.problem.node_costs[node].size) != candidate
        if deadline.passed or not others.any():
            return None
        try:
            return solve_among(self.problem, {node: others}, deadline)
        except SearchLimitError:
            return None

    def min_among(self, keep: Mapping[int, Mask], deadline: Deadline) -> float | None:
        """The price of the marked options; +inf if they exclude each other.

        If the tables would be too large, it is the best cost that was found by the deadline, or
        None if no choice was found.
        """
        if not all(mask.any() for mask in keep.values()):
            return math.inf
        if deadline.passed:
            return None
        exact = min_cost(restricted(self._narrow, keep))
        if exact is not None:
            return exact
        try:
            best = solve_among(self.problem, keep, deadline)
        except SearchLimitError:
            return None
        return math.inf if best is None else best.cost


def _layouts_as_classes(layout_graph: LayoutGraph) -> dict[int, list[list[int]]]:
    """For each node two partitions of its options: by the layout read, and by the one written.

    A neighbour cannot tell options of one class apart.
    """
    return {
        i: [[o.reads.block for o in options], [o.writes.block for o in options]]
        for i, options in enumerate(layout_graph.options)
    }
