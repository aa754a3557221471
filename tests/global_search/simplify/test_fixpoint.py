from __future__ import annotations

import numpy as np

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.simplify.fixpoint import settle, simplify

INF = float("inf")


def test_a_hub_of_equal_layouts_disappears(clique):
    # A clique of five. Nodes 1 to 4 must take the layout of node 0, so all five are one node.
    equal = np.where(np.eye(3), 0, INF)
    priced = {edge: np.arange(9.0).reshape(3, 3) for edge in clique(5)}
    tied = {edge: equal for edge in clique(5) if edge[0] == 0}
    graph = CostGraph.of(LayoutProblem([[2, 1, 0]] * 5, priced | tied))
    assert simplify(graph)
    assert not graph.costs
    assert len(set(graph.complete({}).values())) == 1


def test_a_clique_of_hopeless_candidates_disappears(clique):
    edges = {edge: np.array([[0.0, 1.0], [1.0, 0.0]]) for edge in clique(5)}
    graph = CostGraph.of(LayoutProblem([[0, 99]] * 5, edges))
    assert simplify(graph)
    assert not graph.costs
    assert graph.complete({}) == dict.fromkeys(range(5), 0)


def test_remaining_nodes_have_a_choice_and_three_neighbours(random_problem, clique):
    edges = [*clique(4), (3, 4), (4, 5), (2, 6)]
    graph = CostGraph.of(random_problem(edges, seed=0, min_size=4))
    assert simplify(graph)
    assert set(graph.costs) == {0, 1, 2, 3}
    assert all(len(links) >= 3 for links in graph.edges.values())
    assert all(costs.size >= 2 for costs in graph.costs.values())


def test_a_conflict_that_reductions_uncover(different):
    # A square: three edges demand equal candidates, the fourth different ones. Every edge by itself
    # is consistent. RII shows the conflict.
    equal = different[::-1]
    edges = {(0, 1): equal, (1, 2): equal, (2, 3): equal, (0, 3): different}
    graph = CostGraph.of(LayoutProblem([[0, 0]] * 4, edges))
    assert not settle(graph.copy(), forbidden=True)
    assert not simplify(graph)
