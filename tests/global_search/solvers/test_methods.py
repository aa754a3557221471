from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import InvalidProblemError
from tvm_neocpu.global_search import LayoutProblem, SearchLimitError
from tvm_neocpu.global_search.solvers.methods import solve


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(InvalidProblemError, match="'fast'; choose one of auto, dp, pbqp"):
        solve(LayoutProblem([[0]]), "fast")


@pytest.mark.parametrize("limit", [-1, float("nan")])
def test_a_time_limit_below_zero_is_refused(limit):
    with pytest.raises(InvalidProblemError, match="0 seconds or more"):
        solve(LayoutProblem([[0]]), time_limit=limit)


@pytest.mark.parametrize("method", ["dp", "milp", "brute"])
def test_exact_engines_say_that_the_time_is_over(method, clique, random_problem):
    with pytest.raises(SearchLimitError, match="auto"):
        solve(random_problem(clique(6), seed=0), method, time_limit=0)


@pytest.mark.parametrize("method", ["auto", "pbqp", "paper"])
def test_heuristics_answer_without_any_time(method, clique, random_problem):
    problem = random_problem(clique(6), seed=0)
    best = solve(problem, "brute").cost
    solution = solve(problem, method, time_limit=0)
    assert solution.lower_bound <= best <= solution.cost
    assert solution.gap == solution.cost - solution.lower_bound


@pytest.mark.parametrize(("method", "count"), [("dp", 16), ("brute", 22)])
def test_exact_engines_decline_what_is_too_large(method, count, clique, random_problem):
    problem = random_problem(clique(count), seed=0, max_size=8)
    with pytest.raises(SearchLimitError, match=f"{method}: .*use method='auto'"):
        solve(problem, method)


def test_milp_declines_too_many_pairs(monkeypatch, clique, random_problem):
    monkeypatch.setattr("tvm_neocpu.global_search.solvers.milp.MAX_PAIRS", 10)
    with pytest.raises(SearchLimitError, match="more than 10 pairs"):
        solve(random_problem(clique(4), seed=0), "milp")


def test_infinite_time_is_a_time_limit(clique, random_problem):
    problem = random_problem(clique(5), seed=0)
    costs = {solve(problem, m, time_limit=float("inf")).cost for m in ("auto", "dp", "milp")}
    assert max(costs) == pytest.approx(min(costs))
