"""The stages of `auto` behind the reductions, each made to answer in its turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_neocpu.core.errors import UnsatisfiableError
from tvm_neocpu.global_search import LayoutProblem, Solution
from tvm_neocpu.global_search.solvers import auto, irreducible
from tvm_neocpu.global_search.solvers.irreducible import Answer
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.global_search.solvers.milp import MilpResult

INF = float("inf")


@pytest.fixture
def no_dp(monkeypatch):
    monkeypatch.setattr(irreducible, "EASY_WORK", 0)
    monkeypatch.setattr(irreducible, "SECONDS_PER_ENTRY", INF)


@pytest.fixture
def heuristics_only(monkeypatch, no_dp):
    monkeypatch.setattr(irreducible, "MAX_MILP_PAIRS", 0)
    monkeypatch.setattr(irreducible, "MAX_PAIRS", 0)


@pytest.fixture(params=[0.0, 0.15])
def hard(request, random_problem, clique):
    """Neither reductions nor bounds close it."""
    return random_problem(clique(7), seed=3, max_size=6, min_size=6, forbidden=request.param)


def test_series_parallel_networks_need_reductions_only(random_problem):
    solution = solve(random_problem([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], seed=0))
    assert (solution.method, solution.optimal) == ("auto (reductions)", True)


def test_small_frontiers_are_left_to_dp(hard):
    solution = solve(hard)
    assert (solution.method, solution.optimal) == ("auto (reductions, dp)", True)
    assert solution.cost == pytest.approx(solve(hard, "dp").cost)


def test_a_bound_that_is_met_ends_the_search(no_dp, clique):
    # Equal layouts cost nothing, and every node is fastest in layout 2: bound and choice agree.
    potts = np.where(np.eye(4), 0.0, 1.0)
    nodes = [[1.0, 0.9, 0.5, 0.9 - 0.01 * i] for i in range(5)]
    solution = solve(LayoutProblem(nodes, {edge: potts for edge in clique(5)}))
    assert solution.choice == (2,) * 5
    assert solution.optimal


def test_what_the_bound_leaves_is_left_to_dp(monkeypatch, hard):
    monkeypatch.setattr(irreducible, "EASY_WORK", 0)
    solution = solve(hard)
    assert (solution.method, solution.optimal) == ("auto (reductions, dp)", True)
    assert solution.cost == pytest.approx(solve(hard, "dp").cost)


def test_what_dp_declines_is_left_to_milp(no_dp, hard):
    solution = solve(hard)
    assert (solution.method, solution.optimal) == ("auto (reductions, milp)", True)
    assert solution.cost == pytest.approx(solve(hard, "dp").cost)


def test_heuristics_do_not_pass_for_an_optimum(heuristics_only, hard):
    solution = solve(hard)
    assert solution.method.startswith("auto (reductions, pbqp)")
    assert not solution.optimal
    best = solve(hard, "dp").cost
    assert solution.lower_bound < best <= solution.cost <= best / 0.88


@pytest.mark.parametrize("stage", ["no_dp", "heuristics_only"])
def test_no_stage_takes_the_impossible_for_solved(stage, request, clique):
    request.getfixturevalue(stage)
    unequal = np.where(np.eye(4), INF, 0.0)
    problem = LayoutProblem([[0.0] * 4] * 5, {edge: unequal for edge in clique(5)})
    with pytest.raises(UnsatisfiableError, match="node 0 - node 1"):
        solve(problem)


def test_milp_answers_where_pbqp_finds_no_finite_choice(monkeypatch, no_dp, clique):
    def gives_up(*_):
        raise irreducible.SearchLimitError("no time")

    monkeypatch.setattr(irreducible, "good_choice", gives_up)
    unequal = np.where(np.eye(5), INF, 0.0)
    problem = LayoutProblem([[0, 1, 2, 3, 4]] * 5, {edge: unequal for edge in clique(5)})
    solution = solve(problem)
    assert (solution.method, solution.cost) == ("auto (reductions, milp)", 10.0)


def test_no_finite_choice_in_time_is_said(monkeypatch, no_dp, hard):
    def gives_up(*_):
        raise irreducible.SearchLimitError("no time")

    monkeypatch.setattr(irreducible, "good_choice", gives_up)
    monkeypatch.setattr(irreducible, "MAX_PAIRS", 0)
    with pytest.raises(irreducible.SearchLimitError, match="raise the time limit"):
        solve(hard)


def test_milp_cut_short_does_not_pass_for_an_optimum(monkeypatch, no_dp, hard):
    cut_short = MilpResult(None, -1.0, finished=False)
    monkeypatch.setattr(irreducible, "branch_and_cut", lambda *_: cut_short)
    solution = solve(hard)
    assert solution.method.startswith("auto (reductions, milp)")
    assert not solution.optimal
    assert 0 < solution.lower_bound < solution.cost


@pytest.mark.parametrize("node", [1, 6])
def test_bounds_of_kernels_add_up_and_one_unproven_is_enough(
    node, monkeypatch, random_problem, clique
):
    def unproven_with_node(graph, deadline):
        answer = irreducible.solve_irreducible(graph, deadline)
        if node not in graph.costs:
            return answer
        return replace(answer, lower_bound=answer.lower_bound - 0.5, exact=False)

    monkeypatch.setattr(auto, "solve_irreducible", unproven_with_node)
    two = [*clique(5), *((i + 5, j + 5) for i, j in clique(5))]
    solution = solve(random_problem(two, seed=1, min_size=4))
    assert not solution.optimal
    assert solution.gap == pytest.approx(0.5)


def test_it_is_never_worse_than_pbqp(monkeypatch, hard):
    def poor(graph, _deadline):
        places = next(
            places
            for places in ({i: k % c.size for i, c in graph.costs.items()} for k in range(100))
            if np.isfinite(graph.cost(places))
        )
        return Answer(graph.to_labels(places), graph.cost(places), 0.0, False, "poor")

    monkeypatch.setattr(auto, "solve_irreducible", poor)
    hard = LayoutProblem(
        hard.node_costs, {e: np.nan_to_num(m, posinf=9.0) for e, m in hard.edge_costs.items()}
    )
    rival = solve(hard, "pbqp")
    found = solve(hard)
    assert found == Solution(
        rival.choice, rival.cost, False, rival.lower_bound, "auto (reductions, poor), then pbqp"
    )


def test_every_kernel_is_solved(random_problem, clique):
    two = [*clique(5), *((i + 5, j + 5) for i, j in clique(5)), (0, 10)]
    problem = random_problem(two, seed=1)
    solution = solve(problem)
    assert solution.optimal
    assert solution.cost == pytest.approx(solve(problem, "dp").cost)
