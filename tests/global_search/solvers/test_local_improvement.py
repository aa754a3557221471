from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.solvers.local_improvement import (
    improve,
    improve_block,
    improve_single,
)
from tvm_neocpu.global_search.solvers.methods import solve


def soon() -> Deadline:
    """A minute from now. A constant would count from the import, long before the test perhaps."""
    return Deadline.after(60)


def test_single_moves_end_where_no_node_can_gain(random_problem, clique):
    graph = CostGraph.of(random_problem(clique(6), seed=0, max_size=6))
    start = dict.fromkeys(graph.costs, 0)
    places = improve_single(graph, start)
    cost = graph.cost(places)
    assert cost < graph.cost(start)
    for i, costs in graph.costs.items():
        assert min(graph.cost(places | {i: a}) for a in range(costs.size)) >= cost - 1e-12


def test_a_block_frees_nodes_from_a_trap_of_two():
    # Neither node gains by moving alone.
    graph = CostGraph.of(LayoutProblem([[1, 0], [1, 0]], {(0, 1): [[0, 9], [9, 0]]}))
    start = {0: 0, 1: 0}
    assert improve_single(graph, start) == start
    assert improve_block(graph, start, [0, 1]) == {0: 1, 1: 1}


def test_a_block_of_a_series_parallel_graph_is_all_of_it(random_problem):
    problem = random_problem([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], seed=3)
    graph = CostGraph.of(problem)
    places = improve_block(graph, dict.fromkeys(graph.costs, 0), [4, 3, 2, 1, 0])
    assert tuple(places[i] for i in range(5)) == solve(problem, "brute").choice


def test_a_block_holds_the_first_nodes_of_its_order(random_problem, clique):
    graph = CostGraph.of(random_problem(clique(5), seed=3))
    start = dict.fromkeys(graph.costs, 1)
    places = improve_block(graph, start, [3, 1, 0, 2, 4])
    assert (places[3], places[1]) == (1, 1)
    assert graph.cost(places) < graph.cost(start)


@pytest.mark.parametrize("forbidden", [0.0, 0.1])
def test_improve_reaches_the_optimum_of_a_small_clique(forbidden, random_problem, clique):
    problem = random_problem(clique(6), seed=9, forbidden=forbidden)
    graph = CostGraph.of(problem)
    best = solve(problem, "brute")
    rng = np.random.default_rng(0)
    start: dict[int, int] = {}
    while not start or math.isinf(graph.cost(start)):
        start = {i: int(rng.integers(costs.size)) for i, costs in graph.costs.items()}
    assert graph.cost(start) > best.cost
    places = improve(graph, start, bound=0.0, deadline=soon(), kicks=60)
    assert graph.cost(places) == pytest.approx(best.cost)


def test_kicks_end_when_the_bound_is_met(monkeypatch, random_problem, clique):
    graph = CostGraph.of(random_problem(clique(4), seed=0))
    start = dict.fromkeys(graph.costs, 0)
    target = graph.cost(improve(graph, start, 0.0, soon(), kicks=0))

    def no_kick(*_):
        raise AssertionError("kicked although the bound is met")

    monkeypatch.setattr("tvm_neocpu.global_search.solvers.local_improvement.kick", no_kick)
    assert graph.cost(improve(graph, start, target, soon(), kicks=5)) == target


def test_without_time_single_moves_remain(random_problem, clique):
    graph = CostGraph.of(random_problem(clique(5), seed=0))
    start = dict.fromkeys(graph.costs, 0)
    assert improve(graph, start, 0.0, Deadline.after(0), kicks=5) == improve_single(graph, start)
