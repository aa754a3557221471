from __future__ import annotations

import time

import pytest

from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.solvers import paper
from tvm_neocpu.global_search.solvers.methods import solve


def test_it_switches_to_pbqp_if_tables_grow_too_large(clique, random_problem):
    assert solve(random_problem(clique(5), seed=0), "paper").method == "paper (dp)"
    large = solve(random_problem(clique(16), seed=0, max_size=8), "paper", time_limit=1)
    assert large.method == "paper (pbqp)"
    assert large.lower_bound < large.cost
    assert not large.optimal


def test_both_of_its_methods_keep_to_the_deadline(clique, random_problem, monkeypatch):
    """PBQP is given what is left, not for ever: its bound and its kicks take what they get."""
    given = []

    def remembered(problem, deadline):
        given.append(deadline.remaining)
        return None

    monkeypatch.setattr(paper, "solve_pbqp", remembered)
    paper.solve_paper(random_problem(clique(16), seed=0, max_size=8), Deadline.after(2))
    assert 0 < given[0] <= 2


def test_dynamic_programming_leaves_time_for_pbqp(random_problem, clique, monkeypatch):
    shares = []

    def too_slow(problem, deadline):
        shares.append(deadline.remaining)
        raise SearchLimitError("too slow")

    monkeypatch.setattr(paper, "solve_dp", too_slow)
    found = paper.solve_paper(random_problem(clique(5), seed=0), Deadline.after(100))
    assert found.method == "paper (pbqp)"
    assert shares[0] == pytest.approx(70, abs=1)


def test_a_large_problem_ends_soon_after_its_deadline(clique, random_problem):
    start = time.monotonic()
    solve(random_problem(clique(24), seed=0, max_size=8), "paper", time_limit=0.2)
    assert time.monotonic() - start < 5
