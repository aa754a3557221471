from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.solvers.elimination_order import plan_elimination


def graph_of(edges, size=10):
    count = 1 + max(max(edge) for edge in edges)
    costs = [np.zeros(size)] * count
    return CostGraph.of(LayoutProblem(costs, {e: np.zeros((size, size)) for e in edges}))


def test_a_chain_needs_one_node_of_state():
    plan = plan_elimination(graph_of([(0, 1), (1, 2), (2, 3)]), max_entries=1000)
    assert plan is not None
    assert sorted(plan.order) == [0, 1, 2, 3]
    assert plan.entries == 10 + 10 + 10 + 1
    assert plan.work == 100 + 100 + 100 + 10


def test_a_residual_block_needs_two_nodes_of_state():
    plan = plan_elimination(graph_of([(0, 1), (1, 2), (2, 3), (0, 3)]), max_entries=1000)
    assert plan is not None
    assert plan.work == 1000 + 1000 + 100 + 10


def test_a_grid_needs_its_shorter_side(grid):
    plan = plan_elimination(graph_of(grid(3, 12)), max_entries=10**6)
    assert plan is not None
    assert plan.work <= 36 * 10**4


@pytest.mark.parametrize("limits", [{"max_entries": 999}, {"max_entries": 10**6, "max_work": 999}])
def test_none_beyond_a_limit(limits):
    clique = list(itertools.combinations(range(4), 2))
    assert plan_elimination(graph_of(clique), **limits) is None


def test_limits_are_inclusive(clique):
    entries = 1000 + 100 + 10 + 1
    assert plan_elimination(graph_of(clique(4)), max_entries=entries, max_work=11110) is not None
    assert plan_elimination(graph_of(clique(4)), max_entries=entries - 1) is None
    assert plan_elimination(graph_of(clique(4)), max_entries=entries, max_work=11109) is None
