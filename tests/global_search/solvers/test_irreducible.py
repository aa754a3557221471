"""Every stage for irreducible graphs answers if the stages before it are disabled."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.core.errors import UnsatisfiableError
from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.solvers import irreducible
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


def test_dp_solves_small_frontiers(hard):
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


def test_dp_solves_what_pruning_leaves(monkeypatch, hard):
    monkeypatch.setattr(irreducible, "EASY_WORK", 0)
    solution = solve(hard)
    assert (solution.method, solution.optimal) == ("auto (reductions, dp)", True)
    assert solution.cost == pytest.approx(solve(hard, "dp").cost)


def test_milp_solves_what_dp_declines(no_dp, hard):
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
def test_no_stage_solves_an_unsatisfiable_problem(stage, request, clique):
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


def test_an_error_says_that_no_finite_choice_was_found_in_time(monkeypatch, no_dp, hard):
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
