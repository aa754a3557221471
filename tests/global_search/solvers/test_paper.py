from __future__ import annotations

from tvm_neocpu.global_search.solvers.methods import solve


def test_it_switches_to_pbqp_if_tables_grow_too_large(clique, random_problem):
    assert solve(random_problem(clique(5), seed=0), "paper").method == "paper (dp)"
    large = solve(random_problem(clique(16), seed=0, max_size=8), "paper", time_limit=1)
    assert large.method == "paper (pbqp)"
    assert large.lower_bound < large.cost
    assert not large.optimal
