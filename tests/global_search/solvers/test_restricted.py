"""The optimum among marked candidates."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.solvers import restricted
from tvm_neocpu.global_search.solvers.min_marginals import min_marginals
from tvm_neocpu.global_search.solvers.restricted import solve_among


def soon() -> Deadline:
    """A minute from now. A constant would count from the import, long before the test perhaps."""
    return Deadline.after(60)


@pytest.fixture(params=["dp", "auto"])
def either(request, monkeypatch):
    """Both methods: "auto" answers if the tables of "dp" are too large."""

    def declines(*_):
        raise SearchLimitError("too wide")

    if request.param == "auto":
        monkeypatch.setattr(restricted, "solve_dp", declines)
    return request.param


def test_it_is_the_optimum_with_a_candidate_forced(shape, random_problem, either):
    problem = random_problem(shape, seed=1, max_size=3)
    prices = min_marginals(problem)
    for i, costs in enumerate(problem.node_costs):
        for candidate in range(costs.size):
            found = solve_among(problem, {i: np.arange(costs.size) == candidate}, soon())
            assert found.choice[i] == candidate
            assert found.cost == pytest.approx(prices[i][candidate])
            assert found.optimal


def test_marks_that_exclude_each_other_have_no_solution(random_problem, either):
    problem = random_problem([(0, 1)], seed=0, forbidden=1.0)
    assert solve_among(problem, {}, soon()) is None
    free = random_problem([(0, 1)], seed=0)
    assert solve_among(free, {0: np.zeros(free.node_costs[0].size, dtype=bool)}, soon()) is None
