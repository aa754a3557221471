from __future__ import annotations

import numpy as np

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.simplify.consistency import Wipeout, drop_impossible

INF = float("inf")
SHIFT = np.where(np.eye(3, k=1), 0, INF)  # candidate a goes with the next node's a + 1 only


def test_a_dropped_candidate_is_followed_up_along_a_chain():
    graph = CostGraph.of(LayoutProblem([[5, 6, 7]] * 3, {(0, 1): SHIFT, (1, 2): SHIFT}))
    assert drop_impossible(graph) is None
    assert {i: labels.tolist() for i, labels in graph.labels.items()} == {0: [0], 1: [1], 2: [2]}
    assert {i: costs.tolist() for i, costs in graph.costs.items()} == {0: [5], 1: [6], 2: [7]}
    assert graph.edges[0][1].shape == (1, 1)


def test_finite_problems_are_left_alone(random_problem, shape):
    graph = CostGraph.of(random_problem(shape, seed=0))
    sizes = {i: costs.size for i, costs in graph.costs.items()}
    assert drop_impossible(graph) is None
    assert {i: costs.size for i, costs in graph.costs.items()} == sizes


def test_the_node_and_the_neighbour_of_a_conflict_are_returned():
    chain = {(0, 1): SHIFT, (1, 2): SHIFT, (2, 3): SHIFT}
    wipeout = drop_impossible(CostGraph.of(LayoutProblem([[0, 0, 0]] * 4, chain)))
    assert wipeout is not None
    assert wipeout.neighbour in {wipeout.node - 1, wipeout.node + 1}


def test_a_node_without_finite_costs_is_returned_alone():
    assert drop_impossible(CostGraph.of(LayoutProblem([[0], [INF, INF]]))) == Wipeout(1)


def test_nodes_outside_the_start_are_not_checked():
    graph = CostGraph.of(LayoutProblem([[INF, 0], [0, 0], [INF, 0]]))
    drop_impossible(graph, [0])
    assert (graph.labels[0].tolist(), graph.labels[2].tolist()) == ([1], [0, 1])
