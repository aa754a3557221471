"""The answer of a solver: a choice, its cost, and a lower bound on the optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem

# Rounding: the same costs summed in another order differ. A relative gap below this counts as 0.
RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Solution:
    """One candidate per node, in the unit of the problem's costs.

    No choice costs less than `lower_bound`. `optimal` means proven optimal. `method` names the
    method and, in parentheses, the engines it used: `auto (reductions, dp)`.
    """

    choice: tuple[int, ...]
    cost: float
    optimal: bool
    lower_bound: float
    method: str

    @property
    def gap(self) -> float:
        """An upper bound on cost minus optimum, in the unit of the costs."""
        return self.cost - self.lower_bound


def proven(problem: LayoutProblem, chosen: Mapping[int, int], method: str) -> Solution | None:
    """The solution of an exact method that ran to its end; None if every choice is forbidden.

    chosen: the candidate of every node, numbered as in the problem.
    """
    choice, cost = _evaluated(problem, chosen)
    return None if math.isinf(cost) else Solution(choice, cost, True, cost, method)


def bounded(
    problem: LayoutProblem, chosen: Mapping[int, int], lower_bound: float, method: str
) -> Solution:
    """A solution with a bound. It is optimal if cost and bound differ by rounding only.

    chosen: the candidate of every node, numbered as in the problem.
    """
    choice, cost = _evaluated(problem, chosen)
    return Solution(choice, cost, is_closed(cost, lower_bound), min(cost, lower_bound), method)


def _evaluated(problem: LayoutProblem, chosen: Mapping[int, int]) -> tuple[tuple[int, ...], float]:
    choice = tuple(chosen[i] for i in range(len(problem)))
    return choice, problem.cost(choice)


def is_closed(cost: float, lower_bound: float) -> bool:
    """Whether a cost and a lower bound on it differ by rounding only."""
    return cost - lower_bound <= RELATIVE_TOLERANCE * max(abs(cost), abs(lower_bound))
