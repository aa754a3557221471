from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem, SearchLimitError
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.global_search.solvers.pbqp import decide, rank_candidates

INF = float("inf")


@pytest.mark.parametrize("seed", range(6))
def test_reaches_88_percent_of_the_optimum(seed, shape, random_problem):
    """NeoCPU, section 3.3.2: at least 88 % of what dynamic programming finds."""
    problem = random_problem(shape, seed, max_size=6)
    assert solve(problem, "dp").cost >= 0.88 * solve(problem, "pbqp").cost


@pytest.mark.parametrize("seed", range(6))
def test_reaches_88_percent_on_cliques(seed, random_problem, clique):
    problem = random_problem(clique(7), seed, max_size=7)
    optimum = solve(problem, "dp").cost
    rn_alone = decide(CostGraph.of(problem), Deadline.after(60))
    assert rn_alone is not None
    assert optimum >= 0.88 * solve(problem, "pbqp").cost
    assert solve(problem, "pbqp").cost <= rn_alone.constant


def test_a_problem_that_reduces_to_nothing_is_proven_optimal(random_problem):
    residual = random_problem([(0, 1), (1, 2), (0, 2), (2, 3)], seed=0)
    solution = solve(residual, "pbqp")
    assert solution.optimal
    assert solution.lower_bound == solution.cost


def test_a_choice_by_rn_is_not_proven_optimal(random_problem, clique):
    solution = solve(random_problem(clique(7), seed=0, max_size=7), "pbqp")
    assert not solution.optimal
    assert solution.lower_bound < solution.cost


def test_candidates_are_ranked_with_the_neighbours_best_answers():
    edge = [[5, 0], [1, 9], [2, 2]]
    graph = CostGraph.of(LayoutProblem([[0, 0, 0], [0, 4]], {(0, 1): edge}))
    assert rank_candidates(graph, 0) == [1, 2, 0]


def test_rn_takes_back_a_decision_that_leads_into_a_dead_end(different, clique):
    # A clique of five needs five colours. Colour 0 is the cheapest for every node.
    unequal = np.where(np.eye(5), INF, 0.0)
    problem = LayoutProblem([[0, 1, 2, 3, 4]] * 5, {edge: unequal for edge in clique(5)})
    solution = solve(problem, "pbqp")
    assert sorted(solution.choice) == [0, 1, 2, 3, 4]
    assert solution.cost == 10


def test_the_search_for_a_finite_choice_ends_with_the_time(clique):
    unequal = np.where(np.eye(7), INF, 0.0)
    graph = CostGraph.of(LayoutProblem([[0] * 7] * 8, {e: unequal for e in clique(8)}))
    with pytest.raises(SearchLimitError, match="forbidden pairs"):
        decide(graph, Deadline.after(0))
