"""Enumeration of every choice: the reference for the other methods on small problems."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution, proven

Indices: TypeAlias = npt.NDArray[np.intp]

MAX_CHOICES = 2_000_000
BLOCK_CHOICES = 1 << 16


def solve_brute(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """The optimum by enumeration; None if every choice is forbidden.

    Raises SearchLimitError for more than MAX_CHOICES choices, and when the deadline passes.
    """
    sizes = [costs.size for costs in problem.node_costs]
    count = math.prod(sizes)
    if count > MAX_CHOICES:
        raise SearchLimitError(f"brute: more than {MAX_CHOICES} choices; use method='auto'")
    best_cost, best = math.inf, 0
    for start in range(0, count, BLOCK_CHOICES):
        if deadline.passed:
            raise SearchLimitError("brute: the time limit has passed; use method='auto'")
        costs = _costs(problem, sizes, start, min(count, start + BLOCK_CHOICES))
        place = int(costs.argmin())
        if costs[place] < best_cost:
            best_cost, best = float(costs[place]), start + place
    choice = _places(np.array([best]), sizes)
    return proven(problem, {i: int(x[0]) for i, x in enumerate(choice)}, "brute")


def _costs(problem: LayoutProblem, sizes: list[int], start: int, stop: int) -> Costs:
    """The costs of the choices number `start` to `stop`, shape `(stop - start,)`."""
    places = _places(np.arange(start, stop), sizes)
    total = np.zeros(stop - start)
    for costs, x in zip(problem.node_costs, places, strict=True):
        total += costs[x]
    for (i, j), matrix in problem.edge_costs.items():
        total += matrix[places[i], places[j]]
    return total


def _places(numbers: Indices, sizes: list[int]) -> list[Indices]:
    """The candidate of each node in the choices of these numbers; the first node counts fastest.

    With sizes [2, 3], number 5 is the choice (1, 2). NumPy's unravel_index is limited to 64 axes.
    """
    places = []
    for size in sizes:
        numbers, place = np.divmod(numbers, size)
        places.append(place)
    return places
