"""Min-marginals agree with the enumeration of every choice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.solvers.min_marginals import min_cost, min_marginals

INF = float("inf")


def by_enumeration(problem: LayoutProblem) -> list[np.ndarray]:
    best = [np.full(costs.size, INF) for costs in problem.node_costs]
    for choice in itertools.product(*(range(costs.size) for costs in problem.node_costs)):
        cost = problem.cost(choice)
        for i, candidate in enumerate(choice):
            best[i][candidate] = min(best[i][candidate], cost)
    return best


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_every_candidate_is_priced(shape, random_problem, seed, forbidden):
    problem = random_problem(shape, seed, max_size=3, min_size=1, forbidden=forbidden)
    expected = by_enumeration(problem)
    found = min_marginals(problem)
    assert len(found) == len(problem)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert min_cost(problem) == pytest.approx(expected[0].min())


def test_nodes_alone_and_with_one_candidate():
    problem = LayoutProblem([[1.0, 2.0], [5.0], [0.5, 0.25]], {(0, 1): [[1.0], [0.0]]})
    found = min_marginals(problem)
    assert [costs.tolist() for costs in found] == [[7.25, 7.25], [7.25], [7.5, 7.25]]


def test_candidates_without_a_finite_choice_cost_infinity():
    problem = LayoutProblem([[0.0, 1.0, INF], [0.0, 1.0]], {(0, 1): [[INF, INF], [0, 0], [0, 0]]})
    assert min_marginals(problem)[0].tolist() == [INF, 1.0, INF]


def test_where_nothing_is_finite_everything_costs_infinity(different):
    triangle = {(0, 1): different, (1, 2): different, (0, 2): different}
    problem = LayoutProblem([[0.0, 0.0]] * 3, triangle)
    assert min_cost(problem) == INF
    assert all(np.isinf(costs).all() for costs in min_marginals(problem))


def test_too_wide_a_graph_is_declined(random_problem, clique):
    problem = random_problem(clique(8), seed=0, max_size=6, min_size=6)
    assert min_marginals(problem, max_work=6**7) is None
    assert min_cost(problem, max_work=6**7) is None
    assert min_cost(problem) is not None
