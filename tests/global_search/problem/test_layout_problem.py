from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.core.errors import InvalidProblemError
from tvm_neocpu.global_search import LayoutProblem

INF = float("inf")


def test_cost_sums_nodes_and_edges():
    problem = LayoutProblem([[1, 2], [10, 20]], {(0, 1): [[100, 200], [300, 400]]})
    assert problem.cost((1, 0)) == 2 + 10 + 300


def test_parallel_and_reversed_edges_are_summed():
    first, second, turned = np.eye(2, 3), np.ones((2, 3)), np.arange(6).reshape(3, 2)
    edges = [((0, 1), first), ((0, 1), second), ((1, 0), turned)]
    problem = LayoutProblem([[0, 0], [0, 0, 0]], edges)
    assert list(problem.edge_costs) == [(0, 1)]
    np.testing.assert_array_equal(problem.edge_costs[0, 1], first + second + turned.T)


def test_a_self_edge_adds_its_diagonal_to_the_node():
    problem = LayoutProblem([[1, 2]], {(0, 0): [[10, 99], [99, 20]]})
    np.testing.assert_array_equal(problem.node_costs[0], [11, 22])
    assert not problem.edge_costs


def test_the_arrays_are_copies_and_read_only():
    costs, matrix = np.zeros(2), np.zeros((2, 2))
    problem = LayoutProblem([costs, costs], {(0, 1): matrix})
    costs[0] = matrix[0, 0] = 7
    assert problem.cost((0, 0)) == 0
    with pytest.raises(ValueError, match="read-only"):
        problem.node_costs[0][0] = 1
    with pytest.raises(ValueError, match="read-only"):
        problem.edge_costs[0, 1][0, 0] = 1


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ([[0, float("nan")]], {}, "node 0: a cost is nan"),
        ([[0, -INF]], {}, "node 0: a cost is -inf"),
        ([[0], []], {}, "node 1: the candidate list is empty"),
        ([[[0, 1]]], {}, "node 0: costs must be 1-D, not of shape (1, 2)"),
        ([["fast"]], {}, "node 0: costs are not an array of numbers"),
        ([[0], [0, 0]], {(0, 1): [[0], [0]]}, "edge (0, 1): costs must be of shape (1, 2)"),
        ([[0], [0]], {(0, 1): [[float("nan")]]}, "edge (0, 1): a cost is nan"),
        ([[0], [0]], {(0, 1): [[-INF]]}, "edge (0, 1): a cost is -inf"),
        ([[0], [0]], {(0, 2): [[0]]}, "edge (0, 2): there is no node 2 among 2"),
        ([[0], [0]], {(-1, 0): [[0]]}, "edge (-1, 0): there is no node -1 among 2"),
        ([[0], [0]], {(0, 1, 1): [[0]]}, "edge (0, 1, 1): not a pair"),
        ([[0], [0]], {(0, 0.5): [[0]]}, "edge (0, 0.5): not a pair"),
        ([[1e308], [1e308]], {}, "too large"),
    ],
)
def test_bad_costs_are_refused_in_one_line(nodes, edges, message):
    with pytest.raises(InvalidProblemError) as refusal:
        LayoutProblem(nodes, edges)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_names_stand_in_messages():
    with pytest.raises(InvalidProblemError, match="conv3: the candidate list is empty"):
        LayoutProblem([[]], names=["conv3"])
    with pytest.raises(InvalidProblemError, match="1 names given for 2 nodes"):
        LayoutProblem([[0], [0]], names=["conv3"])


def test_a_choice_that_does_not_fit_is_refused():
    problem = LayoutProblem([[0, 0]])
    with pytest.raises(InvalidProblemError, match="2 choices given for 1 nodes"):
        problem.cost((0, 0))
    with pytest.raises(InvalidProblemError, match="node 0: there is no candidate -1"):
        problem.cost((-1,))
