"""What a solver answers: a choice, its cost, and how far from the best it can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem

# Sums of the same costs in another order differ by rounding; smaller gaps than this are none.
RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Solution:
    """One candidate per node. No choice costs less than `lower_bound`; `optimal` is proven."""

    choice: tuple[int, ...]
    cost: float
    optimal: bool
    lower_bound: float
    method: str

    @property
    def gap(self) -> float:
        """By how much the cost can still exceed the optimum, in the unit of the costs."""
        return self.cost - self.lower_bound


def proven(problem: LayoutProblem, chosen: Mapping[int, int], method: str) -> Solution | None:
    """The solution of an exact method that ran to its end; None if its cost is infinite."""
    choice, cost = _evaluated(problem, chosen)
    return None if math.isinf(cost) else Solution(choice, cost, True, cost, method)


def bounded(
    problem: LayoutProblem, chosen: Mapping[int, int], lower_bound: float, method: str
) -> Solution:
    """A solution with a bound, optimal if the two meet within rounding."""
    choice, cost = _evaluated(problem, chosen)
    return Solution(choice, cost, is_closed(cost, lower_bound), min(cost, lower_bound), method)


def _evaluated(problem: LayoutProblem, chosen: Mapping[int, int]) -> tuple[tuple[int, ...], float]:
    choice = tuple(chosen[i] for i in range(len(problem)))
    return choice, problem.cost(choice)


def is_closed(cost: float, lower_bound: float) -> bool:
    """Whether nothing but rounding lies between a cost and a bound on it."""
    return cost - lower_bound <= RELATIVE_TOLERANCE * max(abs(cost), abs(lower_bound))
