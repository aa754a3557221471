"""The cheapest choice whose noise stays within a bound: Lagrange multipliers over the exact solver.

    minimise cost(choice)  subject to  noise(choice) <= bound

With a price for noise the bound disappears: ``min cost + multiplier * noise`` is a layout problem
as any other. Its optima are the corners of the lower hull of all (noise, cost) pairs:

    cost |*quiet                 The search keeps a corner within the bound and one beyond it. The
         |  \\                    price of the line between them asks for a corner below that line;
         |   *within             it replaces one of the two, until there is none. The line at the
         |     `-. | bound       bound is then the best lower bound that multipliers give.
         |        `*.
         |         | `-*beyond   Choices above the line are tried last: from the corner within,
         +---------+-------- noise   towards the one beyond, as far as the bound allows.

A looser bound never gives a dearer choice: both ask the same questions until their ways part, and
then the looser one holds a corner that the other has not reached (Fisher 1981, section 2, for the
bound; the order of the questions is ours).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_neocpu.core.errors import InvalidProblemError
from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.problem.solution import RELATIVE_TOLERANCE
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.global_search.solvers.restricted import restricted

# Corners that are asked for; a hull of a hundred layers has about as many, a search halves them.
MAX_STEPS = 60
TIME_LIMIT = 60.0


@dataclass(frozen=True)
class WithinBound:
    """A choice with its cost and noise; no choice within the bound costs less than ``lower_bound``.

    ``multiplier`` is the price of noise at which the search ended, in costs for each unit of noise:
    what a slightly looser bound would save. ``solves`` counts the problems that were solved.
    """

    choice: tuple[int, ...]
    cost: float
    noise: float
    lower_bound: float
    multiplier: float = 0.0
    solves: int = 1

    @property
    def gap(self) -> float:
        """The max share of the cost that the best choice within the bound could save."""
        return max(0.0, self.cost - self.lower_bound) / self.cost if self.cost > 0 else 0.0


def solve_within(
    problem: LayoutProblem,
    noise: Sequence[Costs],
    bound: float,
    time_limit: float = TIME_LIMIT,
) -> WithinBound | None:
    """The cheapest known choice with a noise of at most ``bound``; ``None`` if there is none.

    noise: for every node the noise of each of its candidates, finite and not negative.
    time_limit: seconds, after which the best choice so far is returned.

    Raises InvalidProblemError for noise of wrong shape or below 0, or a bound that is nan;
    UnsatisfiableError where every choice is forbidden, whatever its noise.
    """
    search = _Search(problem, _checked(problem, noise), Deadline.after(time_limit))
    if math.isnan(bound):
        raise InvalidProblemError("the bound on the noise is nan")
    beyond = search.at(0.0)
    if beyond.noise <= bound:
        return replace(beyond, solves=search.solves)
    within = search.quietest()
    if within.noise > bound:
        return None
    lower, multiplier = beyond.lower_bound, 0.0
    while search.may_go_on:
        multiplier = (within.cost - beyond.cost) / (beyond.noise - within.noise)
        if multiplier <= 0:
            break
        found = search.at(multiplier)
        lower = max(lower, found.lower_bound - multiplier * bound)
        if not _is_below(found, within, multiplier):
            break
        if found.noise <= bound:
            within = found
        else:
            beyond = found
    others = (point for point in search.between(within, beyond, bound) if point.noise <= bound)
    best = min([within, *others], key=lambda point: point.cost)
    lower = min(lower, best.cost)
    return replace(best, lower_bound=lower, multiplier=multiplier, solves=search.solves)


class _Search:
    """Solves the problem under prices of noise and under caps on it, and counts."""

    def __init__(self, problem: LayoutProblem, noise: list[Costs], deadline: Deadline) -> None:
        self._problem, self._noise, self._deadline = problem, noise, deadline
        self.solves = 0

    @property
    def may_go_on(self) -> bool:
        return self.solves < MAX_STEPS and not self._deadline.passed

    def at(self, multiplier: float) -> WithinBound:
        """The optimum where noise has a price; ``lower_bound`` is that of the priced problem."""
        nodes = zip(self._problem.node_costs, self._noise, strict=True)
        return self._solved([costs + multiplier * noise for costs, noise in nodes])

    def quietest(self) -> WithinBound:
        """A choice of the least noise, whatever it costs."""
        nodes = [
            np.where(np.isfinite(costs), noise, np.inf)
            for costs, noise in zip(self._problem.node_costs, self._noise, strict=True)
        ]
        edges = {
            edge: np.where(np.isfinite(costs), 0.0, np.inf)
            for edge, costs in self._problem.edge_costs.items()
        }
        return self._solved_problem(LayoutProblem(nodes, edges, names=self._problem.names))

    def between(
        self, within: WithinBound, beyond: WithinBound, bound: float
    ) -> Iterator[WithinBound]:
        """Optima under caps on each node's noise: those of ``within``, some of them raised.

        The caps sum up to the bound at most. A looser bound raises more of the same order, so that
        its optimum is no dearer. Three orders are tried: to the caps of ``beyond``, the small steps
        first or those first that save most for their noise; of every node a step, small ones first.
        """
        old, new = self._noise_of(within), self._noise_of(beyond)
        ends = [(i, new[i]) for i in range(len(old)) if new[i] > old[i]]
        next_up = [
            (i, float(noise[noise > old[i]].min()))
            for i, noise in enumerate(self._noise)
            if (noise > old[i]).any()
        ]

        def size(step: tuple[int, float]) -> float:
            return step[1] - old[step[0]]

        def loss(step: tuple[int, float]) -> float:
            i = step[0]
            costs = self._problem.node_costs[i]
            return float(costs[beyond.choice[i]] - costs[within.choice[i]]) / size(step)

        orders = sorted(ends, key=size), sorted(ends, key=loss), sorted(next_up, key=size)
        tried = {tuple(old)}
        for order in orders:
            caps, left = list(old), bound - within.noise
            for i, cap in order:
                left -= cap - old[i]
                if left < 0:
                    break
                caps[i] = cap
            if self._deadline.passed or tuple(caps) in tried:
                continue
            tried.add(tuple(caps))
            keep = {i: noise <= caps[i] for i, noise in enumerate(self._noise)}
            yield self._solved_problem(restricted(self._problem, keep))

    def _noise_of(self, point: WithinBound) -> list[float]:
        return [float(noise[k]) for noise, k in zip(self._noise, point.choice, strict=True)]

    def _solved(self, node_costs: list[Costs]) -> WithinBound:
        edges, names = self._problem.edge_costs, self._problem.names
        return self._solved_problem(LayoutProblem(node_costs, edges, names=names))

    def _solved_problem(self, priced: LayoutProblem) -> WithinBound:
        self.solves += 1
        found = solve(priced)
        cost, choice = self._problem.cost(found.choice), found.choice
        noise = math.fsum(float(n[k]) for n, k in zip(self._noise, choice, strict=True))
        return WithinBound(choice, cost, noise, found.lower_bound)


def _is_below(found: WithinBound, line: WithinBound, multiplier: float) -> bool:
    """Whether a corner lies below the line of this slope through another."""
    there = line.cost + multiplier * line.noise
    return there - (found.cost + multiplier * found.noise) > RELATIVE_TOLERANCE * abs(there)


def _checked(problem: LayoutProblem, noise: Sequence[Costs]) -> list[Costs]:
    if len(noise) != len(problem):
        raise InvalidProblemError(f"noise of {len(noise)} nodes given for {len(problem)}")
    for costs, given, name in zip(problem.node_costs, noise, problem.names, strict=True):
        if given.shape != costs.shape:
            raise InvalidProblemError(f"{name}: noise of {given.shape}, costs of {costs.shape}")
        if not (np.isfinite(given).all() and (given >= 0).all()):
            raise InvalidProblemError(f"{name}: noise is finite and not below 0")
    return list(noise)
