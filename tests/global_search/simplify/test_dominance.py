from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.simplify import dominance
from tvm_neocpu.global_search.simplify.dominance import drop_dominated, min_excess, undominated
from tvm_neocpu.global_search.solvers.methods import solve

INF = float("inf")


def test_min_excess():
    matrix = np.array([[1.0, 5.0], [2.0, 3.0]])
    np.testing.assert_array_equal(min_excess(matrix), [[0, -1], [-2, 0]])


def test_min_excess_in_blocks_is_the_same(monkeypatch):
    matrix = np.random.default_rng(0).random((6, 4))
    whole = min_excess(matrix)
    monkeypatch.setattr(dominance, "BLOCK_ENTRIES", 30)
    np.testing.assert_array_equal(min_excess(matrix), whole)
    assert whole[2, 5] == (matrix[2] - matrix[5]).min()


def test_a_candidate_is_dropped_if_no_edge_can_make_up_for_its_cost():
    # Candidates 1 and 2 cost 3 more than 0. On the edge 1 saves at most 2, and 2 saves up to 4.
    edge = np.array([[2.0, 4.0], [0.0, 2.0], [2.0, 0.0]])
    assert undominated(np.array([0.0, 3.0, 3.0]), [edge]).tolist() == [True, False, True]


def test_of_equal_candidates_one_stays():
    assert undominated(np.zeros(3), [np.ones((3, 2))]).sum() == 1


def test_a_forbidden_pair_keeps_the_candidate_that_avoids_it():
    edge = np.array([[0.0, INF], [9.0, 9.0]])
    assert undominated(np.array([0.0, 5.0]), [edge]).all()
    # A pair that both candidates forbid favours neither.
    both = np.array([[0.0, INF], [9.0, INF]])
    assert undominated(np.array([0.0, 5.0]), [both]).tolist() == [True, False]


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_survives(seed, random_problem, clique):
    problem = random_problem(clique(5), seed, max_size=6, forbidden=0.1)
    slower = [costs * 5 for costs in problem.node_costs]
    problem = LayoutProblem(slower, problem.edge_costs)
    graph = CostGraph.of(problem)
    assert drop_dominated(graph)
    left = LayoutProblem(
        [graph.costs[i] for i in range(5)], {(i, j): m for i, j, m in graph.edge_list()}
    )
    assert solve(left, "brute").cost == pytest.approx(solve(problem, "brute").cost)
