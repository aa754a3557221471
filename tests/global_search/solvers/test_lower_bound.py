from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize

from tvm_neocpu.global_search import LayoutProblem
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.simplify.consistency import drop_impossible
from tvm_neocpu.global_search.solvers.lower_bound import affordable, independent_minima, tighten
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.global_search.solvers.milp import linearise


def soon() -> Deadline:
    """A minute from now. A constant would count from the import, long before the test perhaps."""
    return Deadline.after(60)


def random_places(graph, seed):
    rng = np.random.default_rng(seed)
    return {i: int(rng.integers(costs.size)) for i, costs in graph.costs.items()}


def consistent(problem):
    graph = CostGraph.of(problem)
    assert drop_impossible(graph) is None
    return graph


@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_every_choice_costs_what_it_did(shape, forbidden, random_problem):
    graph = consistent(random_problem(shape, seed=6, forbidden=forbidden))
    moved = graph.copy()
    tighten(moved, soon(), rounds=5)
    for seed in range(5):
        places = random_places(graph, seed)
        assert moved.cost(places) == pytest.approx(graph.cost(places))


@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_the_bound_grows_and_never_exceeds_the_optimum(shape, forbidden, random_problem):
    problem = random_problem(shape, seed=6, forbidden=forbidden)
    graph = consistent(problem)
    bounds = [independent_minima(graph)] + [tighten(graph, soon(), rounds=1) for _ in range(4)]
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(bounds))
    assert bounds[-1] > bounds[0]
    assert bounds[-1] <= solve(problem, "brute").cost + 1e-12


@pytest.mark.parametrize("edges", [[(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (0, 3), (3, 4)]])
def test_one_round_is_exact_on_trees(edges, random_problem):
    problem = random_problem(edges, seed=1)
    bound = tighten(consistent(problem), soon(), rounds=1)
    assert bound == pytest.approx(solve(problem, "brute").cost)


def test_the_original_arrays_are_not_written_to(random_problem, clique):
    graph = consistent(random_problem(clique(4), seed=0))
    before = graph.edges[0][1].copy()
    tighten(graph.copy(), soon(), rounds=3)
    np.testing.assert_array_equal(graph.edges[0][1], before)


@pytest.mark.parametrize("seed", range(5))
def test_candidates_of_the_optimum_are_affordable(seed, random_problem, clique):
    problem = random_problem(clique(5), seed, max_size=6)
    best = solve(problem, "brute")
    graph = consistent(problem)
    bound = tighten(graph, soon(), rounds=20)
    masks = {i: affordable(graph, i, bound, best.cost + 1e-9) for i in graph.costs}
    assert all(masks[i][best.choice[i]] for i in masks)
    assert not all(mask.all() for mask in masks.values())


@pytest.mark.parametrize("slack", [1.02, 1.05, 1.3])
def test_a_candidate_that_is_not_affordable_costs_more(slack, shape, random_problem):
    problem = random_problem(shape, seed=0, max_size=3)
    graph = consistent(problem)
    bound = tighten(graph, soon(), rounds=20)
    budget = solve(problem, "brute").cost * slack
    refused = 0
    for node, costs in enumerate(problem.node_costs):
        for place in np.flatnonzero(~affordable(graph, node, bound, budget)):
            only = np.where(np.arange(costs.size) == place, costs, np.inf)
            forced = [*problem.node_costs[:node], only, *problem.node_costs[node + 1 :]]
            assert solve(LayoutProblem(forced, problem.edge_costs), "dp").cost > budget
            refused += 1
    assert refused or slack > 1.05


def test_the_bound_comes_close_to_that_of_linear_programming(random_problem, grid):
    graph = consistent(random_problem(grid(5, 5), seed=0, max_size=6))
    program = linearise(graph)
    relaxed = optimize.linprog(
        program.objective, A_eq=program.matrix, b_eq=program.sums, bounds=(0, 1)
    )
    bound = tighten(graph, soon(), rounds=50)
    assert 0.99 < bound / (relaxed.fun + program.offset) <= 1 + 1e-9
