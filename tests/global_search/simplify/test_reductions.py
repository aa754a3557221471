from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.simplify import reductions
from tvm_neocpu.global_search.simplify.reductions import (
    fix,
    fix_single,
    merge_determined,
    min_plus,
    reduce_low_degree,
)
from tvm_neocpu.global_search.solvers.methods import solve

INF = float("inf")
EQUAL = np.where(np.eye(3), 0, INF)


def test_min_plus():
    left = np.array([[1.0, 9.0], [4.0, 2.0]])
    right = np.array([[10.0, 30.0, INF], [20.0, 10.0, INF]])
    np.testing.assert_array_equal(min_plus(left, right), [[11, 14, INF], [19, 12, INF]])


def test_min_plus_in_blocks_is_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    left, right = rng.random((7, 3)), rng.random((7, 4))
    whole = min_plus(left, right)
    monkeypatch.setattr(reductions, "BLOCK_ENTRIES", 25)
    np.testing.assert_array_equal(min_plus(left, right), whole)
    assert whole[1, 2] == (left[:, 1] + right[:, 2]).min()


def test_series_parallel_graphs_reduce_to_nothing(random_problem):
    # A chain of residual blocks with a long shortcut around all of it.
    problem = random_problem([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5), (3, 5), (0, 5)], 0)
    graph = CostGraph.of(problem)
    assert reduce_low_degree(graph) == set()
    assert not graph.costs
    full = graph.complete({})
    best = solve(problem, "brute")
    assert tuple(full[i] for i in range(len(problem))) == best.choice
    assert graph.constant == pytest.approx(best.cost)


def test_nodes_of_degree_three_stay_and_changed_ones_are_returned(random_problem, clique):
    problem = random_problem([*clique(4), (3, 4)], seed=0)
    graph = CostGraph.of(problem)
    assert reduce_low_degree(graph) == {3}
    assert set(graph.costs) == {0, 1, 2, 3}


def test_fix_charges_the_neighbours():
    graph = CostGraph.of(LayoutProblem([[1, 2], [10, 20]], {(0, 1): [[3, 4], [5, 6]]}))
    assert fix(graph, 0, 1) == (1,)
    np.testing.assert_array_equal(graph.costs[1], [15, 26])
    assert graph.constant == 2
    assert graph.complete({1: 0}) == {0: 1, 1: 0}


def test_fix_single_leaves_nodes_with_a_choice():
    graph = CostGraph.of(LayoutProblem([[1], [0, 0]], {(0, 1): [[3, 4]]}))
    fix_single(graph)
    assert set(graph.costs) == {1}
    np.testing.assert_array_equal(graph.costs[1], [3, 4])


def test_hubs_of_joins_become_one_node(clique):
    costs = [np.arange(3.0) * k for k in range(5)]
    dense = {edge: np.arange(9.0).reshape(3, 3) * sum(edge) for edge in clique(5)}
    problem = LayoutProblem(costs, dense | {(0, 3): EQUAL, (3, 4): EQUAL[:, ::-1]})
    graph = CostGraph.of(problem)
    assert merge_determined(graph)
    assert len(graph.costs) == 3
    reduce_low_degree(graph)
    full = graph.complete({})
    choice = tuple(full[i] for i in range(5))
    assert problem.cost(choice) == solve(problem, "brute").cost == graph.constant
    assert choice[0] == choice[3] == 2 - choice[4]


def test_nothing_is_merged_where_both_ends_have_a_choice(random_problem, clique):
    graph = CostGraph.of(random_problem(clique(4), seed=0))
    assert not merge_determined(graph)
    assert len(graph.costs) == 4
