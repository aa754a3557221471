from __future__ import annotations

import pytest

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.solvers import dp
from tvm_neocpu.global_search.solvers.dp import eliminate
from tvm_neocpu.global_search.solvers.elimination_order import plan_elimination
from tvm_neocpu.global_search.solvers.methods import solve


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1), (1, 3, 4, 0, 2)])
def test_every_order_finds_the_optimum(order, random_problem, clique):
    problem = random_problem(clique(5), seed=2)
    graph = CostGraph.of(problem)
    plan = dp.EliminationPlan(order, entries=0, work=0)
    chosen = eliminate(graph, plan, Deadline.after(60))
    assert chosen is not None
    assert tuple(chosen[i] for i in range(5)) == solve(problem, "brute").choice


@pytest.mark.parametrize("seed", range(5))
def test_tables_in_blocks_give_the_same(seed, monkeypatch, random_problem, grid):
    problem = random_problem(grid(3, 3), seed)
    whole = solve(problem, "dp")
    monkeypatch.setattr(dp, "BLOCK_ENTRIES", 7)
    assert solve(problem, "dp") == whole


def test_it_stops_when_the_time_is_over(random_problem, clique):
    graph = CostGraph.of(random_problem(clique(5), seed=2))
    plan = plan_elimination(graph, max_entries=10**6)
    assert plan is not None
    assert eliminate(graph, plan, Deadline.after(0)) is None


def test_wide_graphs_of_small_treewidth_are_solved(random_problem, grid):
    problem = random_problem(grid(3, 60), seed=0, max_size=6)
    assert solve(problem, "dp").cost == pytest.approx(solve(problem, "auto").cost)
