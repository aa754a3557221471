"""`auto` puts the solutions of the components together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_neocpu.global_search import LayoutProblem, Solution
from tvm_neocpu.global_search.solvers import auto, irreducible
from tvm_neocpu.global_search.solvers.irreducible import Answer
from tvm_neocpu.global_search.solvers.methods import solve


def test_series_parallel_networks_need_reductions_only(random_problem):
    solution = solve(random_problem([(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], seed=0))
    assert (solution.method, solution.optimal) == ("auto (reductions)", True)


@pytest.mark.parametrize("node", [1, 6])
def test_bounds_add_up_and_one_unproven_component_is_enough(
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


def test_every_component_is_solved(random_problem, clique):
    two = [*clique(5), *((i + 5, j + 5) for i, j in clique(5)), (0, 10)]
    problem = random_problem(two, seed=1)
    solution = solve(problem)
    assert solution.optimal
    assert solution.cost == pytest.approx(solve(problem, "dp").cost)
