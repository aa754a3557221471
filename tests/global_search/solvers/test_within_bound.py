"""Lagrange multipliers against enumeration: small random problems of (cost, noise) pairs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.errors import InvalidProblemError, UnsatisfiableError
from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.solvers.within_bound import solve_within

Noise = list[np.ndarray]
Problem = tuple[LayoutProblem, Noise]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Positive costs, whole or not, some forbidden; a candidate without noise is not a must."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    pairs = list(itertools.combinations(range(len(sizes)), 2)) or [(0, 0)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=8))
    forbidden = draw(st.sampled_from([0.0, 0.15]))
    whole = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))

    def values(*shape: int) -> np.ndarray:
        return rng.integers(0, 5, shape).astype(float) if whole else rng.random(shape)

    def costs(*shape: int) -> np.ndarray:
        return np.where(rng.random(shape) < forbidden, np.inf, values(*shape))

    noise = [np.where(rng.random(size) < 0.3, 0.0, values(size)) for size in sizes]
    nodes = [costs(size) for size in sizes]
    return LayoutProblem(nodes, [((i, j), costs(sizes[i], sizes[j])) for i, j in edges]), noise


def every_pair(problem: LayoutProblem, noise: Noise) -> list[tuple[float, float]]:
    """(noise, cost) of every choice that is allowed."""
    choices = itertools.product(*(range(costs.size) for costs in problem.node_costs))
    pairs = (
        (math.fsum(n[k] for n, k in zip(noise, choice, strict=True)), problem.cost(choice))
        for choice in choices
    )
    return [pair for pair in pairs if math.isfinite(pair[1])]


@settings(max_examples=examples(150))
@given(problems(), st.floats(0, 1))
def test_within_the_bound_and_its_lower_bound_holds(drawn: Problem, share: float) -> None:
    problem, noise = drawn
    pairs = every_pair(problem, noise)
    if not pairs:
        with pytest.raises(UnsatisfiableError):
            solve_within(problem, noise, 1.0)
        return
    bound = share * max(noise for noise, _ in pairs)
    allowed = [cost for noise, cost in pairs if noise <= bound]
    found = solve_within(problem, noise, bound)
    if not allowed:
        assert found is None
        return
    assert found is not None and found.noise <= bound
    assert found.cost == problem.cost(found.choice)
    assert found.lower_bound <= min(allowed) + 1e-9 <= found.cost + 2e-9
    # No corner of the hull that is clearly within the bound is cheaper.
    inside = (c for n, c in corners(pairs) if n <= bound - 1e-9)
    assert found.cost <= min(inside, default=math.inf) + 1e-9


def corners(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The lower left hull, by asking every slope between two points."""
    slopes = {0.0, 1e9}
    for (n, c), (m, d) in itertools.combinations(sorted(set(pairs)), 2):
        if m > n and c > d:
            slopes.add((c - d) / (m - n))
    quietest = min(pairs)
    found = {min(pairs, key=lambda pair: (pair[1] + s * pair[0], pair[0])) for s in slopes}
    return [*found, quietest]


@settings(max_examples=examples(100))
@given(problems(), st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_a_looser_bound_is_never_dearer(drawn: Problem, shares: list[float]) -> None:
    problem, noise = drawn
    pairs = every_pair(problem, noise)
    if not pairs:
        return
    largest = max(noise for noise, _ in pairs)
    found = [solve_within(problem, noise, share * largest) for share in sorted(shares)]
    costs = [math.inf if each is None else each.cost for each in found]
    assert all(tight >= loose - 1e-9 for tight, loose in itertools.pairwise(costs))


def test_between_two_corners_the_gap_is_filled_and_reported() -> None:
    """Layers that save 4, 3 and 1 for noises of 3, 2 and 1.5: corners at noises 0, 2, 5 and 6.5.

    Within a noise of 4 no price of noise picks the second layer and the third.
    """
    problem = LayoutProblem([[10.0, 6.0], [10.0, 7.0], [10.0, 9.0]])
    noise = [np.array([0.0, 3.0]), np.array([0.0, 2.0]), np.array([0.0, 1.5])]
    found = solve_within(problem, noise, 4.0)
    assert found is not None
    assert (found.cost, found.noise) == (26.0, 3.5)
    # Two thirds of the first layer beside the second would be better still.
    assert found.lower_bound == pytest.approx(30 - 3 - 8 / 3)
    assert found.multiplier == pytest.approx(4 / 3)
    assert found.gap == pytest.approx(1 - (30 - 3 - 8 / 3) / 26)


def test_a_bound_that_all_choices_keep_costs_one_solve() -> None:
    problem = LayoutProblem([[2.0, 1.0]])
    found = solve_within(problem, [np.array([0.0, 1.0])], 1.0)
    assert found is not None and (found.choice, found.solves, found.gap) == ((1,), 1, 0.0)


def test_wrong_noise_is_said() -> None:
    problem = LayoutProblem([[2.0, 1.0]])
    for noise in ([], [np.zeros(3)], [np.array([0.0, -1.0])], [np.array([0.0, np.inf])]):
        with pytest.raises(InvalidProblemError):
            solve_within(problem, noise, 1.0)
    with pytest.raises(InvalidProblemError, match="the bound on the noise is nan"):
        solve_within(problem, [np.zeros(2)], math.nan)
