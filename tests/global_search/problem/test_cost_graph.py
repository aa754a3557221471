from __future__ import annotations

import numpy as np

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph, components

INF = float("inf")


def two_nodes() -> CostGraph:
    return CostGraph.of(LayoutProblem([[1, 2], [3, 4, 5]], {(0, 1): np.arange(6).reshape(2, 3)}))


def test_both_directions_of_an_edge_agree_after_every_change():
    graph = two_nodes()
    graph.restrict(1, np.array([True, False, True]))
    graph.add_edge(1, 0, np.ones((2, 2)))
    np.testing.assert_array_equal(graph.edges[0][1], [[1, 3], [4, 6]])
    np.testing.assert_array_equal(graph.edges[1][0], [[1, 4], [3, 6]])


def test_labels_and_places_convert_after_candidates_were_dropped():
    graph = two_nodes()
    graph.restrict(1, np.array([False, True, True]))
    assert graph.to_labels({0: 1, 1: 0}) == {0: 1, 1: 1}
    assert graph.to_places({0: 1, 1: 2}) == {0: 1, 1: 1}
    assert graph.cost({0: 1, 1: 0}) == 2 + 4 + 4


def test_a_node_is_put_back_though_its_neighbour_lost_candidates_since():
    graph = two_nodes()
    graph.take_out(0)
    graph.restrict(1, np.array([False, False, True]))
    # Beside candidate 2 of node 1, node 0 pays 1 + 2 or 2 + 5.
    assert graph.complete({1: 2}) == {0: 0, 1: 2}


def test_a_copy_is_independent():
    graph = two_nodes()
    other = graph.copy()
    other.restrict(0, np.array([False, True]))
    other.take_out(0)
    assert set(graph.costs) == {0, 1}
    assert graph.edges[1][0].shape == (3, 2)
    assert not graph.trail


def test_a_part_has_inner_edges_only():
    edges = {(0, 1): np.ones((2, 2)), (1, 2): np.ones((2, 2))}
    part = CostGraph.of(LayoutProblem([[0, 0]] * 3, edges)).part([1, 2])
    assert [(i, j) for i, j, _ in part.edge_list()] == [(1, 2)]


def test_components():
    edges = {(0, 3): np.ones((1, 1)), (3, 1): np.ones((1, 1))}
    groups = components(CostGraph.of(LayoutProblem([[0]] * 5, edges)))
    assert sorted(map(sorted, groups)) == [[0, 1, 3], [2], [4]]


def test_has_forbidden_looks_at_nodes_and_edges():
    assert not two_nodes().has_forbidden()
    assert CostGraph.of(LayoutProblem([[INF, 0]])).has_forbidden()
    assert CostGraph.of(LayoutProblem([[0], [0]], {(0, 1): [[INF]]})).has_forbidden()
