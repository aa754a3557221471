from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.global_search.solvers.milp import branch_and_cut, linearise

INF = float("inf")


def test_the_program_prices_a_choice_like_the_problem(random_problem, clique):
    problem = random_problem(clique(3), seed=0)
    program = linearise(CostGraph.of(problem))
    solution = solve(problem, "brute")
    values = np.zeros(program.objective.size)
    for i, first in program.first_x.items():
        values[first + solution.choice[i]] = 1
    y = sum(costs.size for costs in problem.node_costs)
    for (i, j), matrix in problem.edge_costs.items():
        values[y + np.ravel_multi_index((solution.choice[i], solution.choice[j]), matrix.shape)] = 1
        y += matrix.size
    np.testing.assert_array_equal(program.matrix @ values, program.sums)
    assert program.objective @ values + program.offset == pytest.approx(solution.cost)
    assert program.places(CostGraph.of(problem), values) == dict(enumerate(solution.choice))


def test_forbidden_pairs_have_no_variable():
    edge = [[0, INF, 1], [2, 3, INF]]
    program = linearise(CostGraph.of(LayoutProblem([[0, 0], [0, 0, 0]], {(0, 1): edge})))
    assert program.objective.tolist() == [0] * 5 + [0, 1, 2, 3]
    assert program.integrality.tolist() == [1] * 5 + [0] * 4


def test_microseconds_of_difference_beside_seconds_are_seen(clique):
    # Choices differ by 1e-8 of the largest cost. Unscaled, HiGHS's tolerances would hide that.
    nodes = [[1e-6, 1e-6 + 1e-14 * (i + 1)] for i in range(4)]
    swap = [[1e-6, 1e-6 - 3e-14], [1e-6 - 3e-14, 1e-6]]
    problem = LayoutProblem(nodes, {edge: swap for edge in clique(4)})
    assert solve(problem, "milp").cost == pytest.approx(solve(problem, "brute").cost, rel=1e-15)


def test_nothing_left_to_decide():
    graph = CostGraph(constant=7.0)
    result = branch_and_cut(graph, Deadline.after(60))
    assert (result.chosen, result.lower_bound, result.finished) == ({}, 7.0, True)


def test_costs_that_are_all_equal():
    solution = solve(LayoutProblem([[2, 2], [2, 2]], {(0, 1): np.full((2, 2), 3)}), "milp")
    assert (solution.cost, solution.optimal) == (7.0, True)


def test_it_proves_infeasibility_that_arc_consistency_does_not_see(different):
    triangle = {(0, 1): different, (1, 2): different, (0, 2): different}
    result = branch_and_cut(CostGraph.of(LayoutProblem([[0, 0]] * 3, triangle)), Deadline.after(60))
    assert result.chosen is None
    assert result.finished


def test_a_search_cut_short_still_bounds(random_problem, clique):
    problem = random_problem(clique(12), seed=0, max_size=12)
    result = branch_and_cut(CostGraph.of(problem), Deadline.after(0.3))
    assert not result.finished
    assert 0 < result.lower_bound <= solve(problem, "pbqp").cost
