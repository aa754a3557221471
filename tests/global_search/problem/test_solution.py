from __future__ import annotations

import math

import pytest

from tvm_neocpu.global_search import LayoutProblem, Solution
from tvm_neocpu.global_search.problem.solution import bounded, is_closed, proven

PROBLEM = LayoutProblem([[1, 2], [3, math.inf]])


def test_rounding_is_no_gap():
    assert is_closed(1.0, 1.0 - 1e-12)
    assert is_closed(-1e-6, -1e-6 * (1 + 1e-12))
    assert not is_closed(1.0, 1.0 - 1e-6)
    assert not is_closed(1e-6, 0.99e-6)
    assert not is_closed(0.0, -1e-30)


def test_proven_unless_forbidden():
    assert proven(PROBLEM, {1: 0, 0: 1}, "dp") == Solution((1, 0), 5.0, True, 5.0, "dp")
    assert proven(PROBLEM, {0: 0, 1: 1}, "dp") is None


@pytest.mark.parametrize(
    ("bound", "optimal", "reported"), [(4.9, False, 4.9), (5.0, True, 5.0), (5.1, True, 5.0)]
)
def test_bounded_is_optimal_where_the_bound_is_met(bound, optimal, reported):
    found = bounded(PROBLEM, {0: 1, 1: 0}, bound, "pbqp")
    assert found == Solution((1, 0), 5.0, optimal, reported, "pbqp")
    assert found.gap == pytest.approx(5.0 - reported)
