"""The conformance suite of `solve`: what every method must do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.errors import UnsatisfiableError
from tvm_neocpu.global_search import METHODS, LayoutProblem
from tvm_neocpu.global_search.solvers.methods import solve

INF = float("inf")
# On problems this small every method but PBQP proves its optimum.
EXACT = [name for name in METHODS if name != "pbqp"]

every_method = pytest.mark.parametrize("method", METHODS)


def agrees_with_enumeration(problem: LayoutProblem, method: str) -> None:
    reference = min_cost(problem)
    if np.isinf(reference):
        with pytest.raises(UnsatisfiableError):
            solve(problem, method)
        return
    solution = solve(problem, method)
    assert solution.cost == problem.cost(solution.choice)
    assert solution.cost >= reference - 1e-9 * abs(reference)
    assert solution.lower_bound <= reference + 1e-9 * abs(reference)
    assert solution.lower_bound <= solution.cost
    assert solution.optimal or method == "pbqp"
    if solution.optimal:
        assert solution.cost == pytest.approx(reference, rel=1e-9, abs=1e-15)


def min_cost(problem: LayoutProblem) -> float:
    choices = itertools.product(*(range(costs.size) for costs in problem.node_costs))
    return min(problem.cost(choice) for choice in choices)


@st.composite
def small_problems(draw: st.DrawFn) -> LayoutProblem:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    pairs = list(itertools.product(range(len(sizes)), repeat=2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=9))
    forbidden = draw(st.sampled_from([0.0, 0.2, 0.5]))
    whole = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 1000)))

    def costs(*shape: int) -> np.ndarray:
        values = rng.integers(-2, 4, shape) if whole else rng.normal(size=shape)
        return np.where(rng.random(shape) < forbidden, INF, values)

    nodes = [costs(size) for size in sizes]
    return LayoutProblem(nodes, [((i, j), costs(sizes[i], sizes[j])) for i, j in edges])


@every_method
@settings(max_examples=examples(150))
@given(problem=small_problems())
def test_agrees_with_enumeration(method, problem):
    agrees_with_enumeration(problem, method)


@every_method
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_agrees_with_enumeration_on_every_shape(method, shape, forbidden, random_problem):
    agrees_with_enumeration(random_problem(shape, seed=3, max_size=3, forbidden=forbidden), method)


@every_method
def test_weighs_a_transform_against_a_slower_scheme(method):
    # Node 0 is fastest in layout 0, node 1 in layout 1. A slower scheme beats the transform.
    problem = LayoutProblem([[1, 4], [9, 2]], {(0, 1): [[0, 8], [8, 0]]})
    solution = solve(problem, method)
    assert (solution.choice, solution.cost) == ((1, 1), 6.0)
    assert solution.optimal
    assert solution.lower_bound == pytest.approx(6.0)


@every_method
def test_empty_problem(method):
    solution = solve(LayoutProblem([], {}), method)
    assert (solution.choice, solution.cost, solution.lower_bound) == ((), 0.0, 0.0)
    assert solution.optimal


@every_method
def test_single_node(method):
    assert solve(LayoutProblem([[3, 1, 2]]), method).choice == (1,)


@every_method
def test_disconnected_nodes_take_their_own_best(method):
    problem = LayoutProblem([[3, 1], [0, 5], [2, 1, 0]], {(0, 1): [[0, 0], [0, 0]]})
    assert solve(problem, method).choice == (1, 0, 2)


@every_method
def test_nodes_with_one_candidate_still_charge_their_edges(method):
    edges = {(0, 1): [[5, 0]], (1, 2): [[0], [9]], (0, 2): [[7]]}
    solution = solve(LayoutProblem([[1], [0, 0], [1]], edges), method)
    assert (solution.choice, solution.cost) == ((0, 0, 0), 14.0)


@every_method
def test_more_single_candidates_than_numpy_has_axes(method, clique):
    problem = LayoutProblem([[1]] * 70, {edge: [[1]] for edge in clique(70)})
    assert solve(problem, method).cost == 70 + 70 * 69 / 2


@every_method
def test_edges_are_directed_by_their_key(method):
    matrix = [[9, 9, 0], [9, 9, 9]]
    assert solve(LayoutProblem([[0, 0], [0, 0, 0]], {(0, 1): matrix}), method).choice == (0, 2)
    assert solve(LayoutProblem([[0, 0, 0], [0, 0]], {(1, 0): matrix}), method).choice == (2, 0)


@every_method
def test_forbidden_candidates_and_pairs_are_avoided(method):
    equal = np.where(np.eye(3), 0, INF)
    problem = LayoutProblem([[0, 1, 2], [2, INF, 0.5], [0, 0, 0]], {(0, 1): equal, (1, 2): equal})
    assert solve(problem, method).choice == (0, 0, 0)


@every_method
def test_negative_costs(method):
    solution = solve(LayoutProblem([[0, -1], [0, -1]], {(0, 1): [[-5, 0], [0, 0]]}), method)
    assert (solution.choice, solution.cost) == ((0, 0), -5.0)


@every_method
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_the_costs_does_not_matter(method, scale, clique, random_problem):
    edges = clique(5)
    unit = solve(random_problem(edges, seed=1), method)
    scaled = solve(random_problem(edges, seed=1, scale=scale), method)
    assert scaled.choice == unit.choice
    assert scaled.lower_bound == pytest.approx(scale * unit.lower_bound, rel=1e-6)
    assert scaled.optimal == unit.optimal


@every_method
def test_the_same_problem_has_the_same_answer(method, clique, random_problem):
    edges = clique(6)
    first, second = (solve(random_problem(edges, seed=5), method) for _ in range(2))
    assert first == second


@every_method
def test_a_conflict_on_one_edge_is_named(method):
    edges = {(0, 1): np.zeros((2, 2)), (1, 2): np.full((2, 2), INF)}
    problem = LayoutProblem([[0, 0]] * 3, edges, names=["conv1", "conv2", "add1"])
    with pytest.raises(UnsatisfiableError, match="conv2 - add1"):
        solve(problem, method)


@every_method
def test_a_conflict_that_no_single_edge_shows_is_named(method, different):
    # A chain of six nodes with two layouts. Nodes 1, 2 and 3 must all differ.
    edges = {(i, i + 1): np.zeros((2, 2)) for i in range(5)}
    edges |= {(1, 2): different, (2, 3): different, (1, 3): different}
    problem = LayoutProblem([[0, 0]] * 6, edges, names=list("abcdef"))
    with pytest.raises(UnsatisfiableError, match="all of b - c, b - d, c - d;"):
        solve(problem, method)


@every_method
def test_a_node_without_finite_candidates_is_named(method):
    problem = LayoutProblem([[0, 0], [INF, INF]], names=["conv1", "conv2"])
    with pytest.raises(UnsatisfiableError, match="conv2: every candidate"):
        solve(problem, method)


@pytest.mark.parametrize("method", EXACT)
def test_a_search_that_must_take_decisions_back(method, different, clique):
    # The cheapest candidates are equal, but neighbours must differ. A ring of even length has only
    # two finite choices.
    ring = {(i, i + 1): different for i in range(5)} | {(0, 5): different}
    chords = {(0, 3): np.zeros((2, 2)), (1, 4): np.zeros((2, 2)), (2, 5): np.zeros((2, 2))}
    solution = solve(LayoutProblem([[0, 1]] * 5 + [[0, 9]], ring | chords), method)
    assert (solution.choice, solution.cost) == ((1, 0, 1, 0, 1, 0), 3.0)
