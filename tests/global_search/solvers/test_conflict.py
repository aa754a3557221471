from __future__ import annotations

import numpy as np

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.solvers.conflict import conflicting_edges, unsatisfiable

INF = float("inf")


def odd_ring_in_a_chain(different):
    """A chain of 12 nodes whose neighbours must differ in one of two layouts; 3 and 7 must too.

    Nodes 3 to 7 are a ring of five, which cannot alternate. The other edges can be satisfied.
    """
    chain = {(i, i + 1): different for i in range(11)}
    return LayoutProblem([[0, 0]] * 12, chain | {(3, 7): different}, names=list("abcdefghijkl"))


def test_only_edges_that_the_conflict_needs_are_listed(different):
    edges = conflicting_edges(odd_ring_in_a_chain(different), Deadline.after(60))
    assert edges == [(3, 4), (3, 7), (4, 5), (5, 6), (6, 7)]


def test_without_time_the_list_is_not_shortened(different):
    assert len(conflicting_edges(odd_ring_in_a_chain(different), Deadline.after(0))) == 12


def test_long_lists_are_cut(different):
    ring = {(i, i + 1): different for i in range(8)} | {(0, 8): different}
    message = str(unsatisfiable(LayoutProblem([[0, 0]] * 9, ring)))
    assert message.startswith("no choice of candidates satisfies all of node 0 - node 1, node 0 - ")
    assert "and 3 more edges; " in message
    assert "\n" not in message


def test_candidates_that_a_node_forbids_count():
    # Three colours suffice for a triangle, but every node forbids the third.
    unequal = np.where(np.eye(3), INF, 0.0)
    triangle = {(0, 1): unequal, (1, 2): unequal, (0, 2): unequal}
    message = str(unsatisfiable(LayoutProblem([[0, 0, INF]] * 3, triangle, names=list("abc"))))
    assert "all of a - b, a - c, b - c;" in message
