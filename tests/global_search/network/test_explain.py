"""An explanation prices every alternative exactly, with everything else chosen anew."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.global_search import Solution
from tvm_neocpu.global_search.network import choose, prices
from tvm_neocpu.global_search.network.choose import plan_of, solution_of
from tvm_neocpu.global_search.network.explain import explain
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, build_layout_graph
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 16, 4, 4)
BLOCKS = (4, 8, 16)


def price(shape: Shape4, before: Layout, after: Layout) -> float:
    return 0.0 if before == after else 1.0 + 0.1 * abs(before.block - after.block)


def conv(name: str) -> GraphNode:
    workload = ConvWorkload(1, 16, 4, 4, 16, (1, 1), types=uniform(name))
    return GraphNode(name, NodeKind.CONV, f"conv {name}", SHAPE, workload)


def residual_blocks(count: int, seed: int = 0) -> LayoutGraph:
    """data -> a, then blocks of two convolutions beside a shortcut, then the output."""
    rng = np.random.default_rng(seed)
    nodes = [GraphNode("data", NodeKind.BOUNDARY, "data", SHAPE), conv("a")]
    edges = [GraphEdge("data", "a", SHAPE, "data")]
    last = "a"
    for k in range(count):
        names = f"b{k}", f"c{k}", f"sum{k}"
        nodes += [conv(names[0]), conv(names[1])]
        nodes.append(GraphNode(names[2], NodeKind.JOIN, "add", SHAPE, join_channels=(16,)))
        pairs = [(last, names[0]), (names[0], names[1]), (names[1], names[2]), (last, names[2])]
        edges += [GraphEdge(src, dst, SHAPE, src) for src, dst in pairs]
        last = names[2]
    nodes.append(GraphNode("output", NodeKind.BOUNDARY, "output", SHAPE))
    edges.append(GraphEdge(last, "output", SHAPE, last))
    candidates = {
        node.workload: tuple(
            Candidate(ConvConfig(x, y, 1), float(rng.random()))
            for x, y in itertools.product(BLOCKS, BLOCKS)
        )
        for node in nodes
        if node.workload is not None
    }
    return build_layout_graph(ConvGraph(tuple(nodes), tuple(edges)), candidates, price)


@pytest.fixture
def found() -> LayoutGraph:
    return residual_blocks(2)


@pytest.fixture
def solution(found: LayoutGraph) -> Solution:
    return solve(found.problem)


@pytest.fixture
def too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables are too large: every price is a search of its own."""
    monkeypatch.setattr(prices, "min_marginals", lambda _: None)
    monkeypatch.setattr(prices, "min_cost", lambda _: None)


def forced(found: LayoutGraph, **options: list[int]) -> float:
    """The cost of the best network in which some nodes may take these options only, by number."""
    index = {node.id: i for i, node in enumerate(found.graph.nodes)}
    costs = [vector.copy() for vector in found.problem.node_costs]
    for name, allowed in options.items():
        mask = np.isin(np.arange(costs[index[name]].size), allowed)
        costs[index[name]] = np.where(mask, costs[index[name]], np.inf)
    return solve(type(found.problem)(costs, found.problem.edge_costs)).cost


def test_the_sum_and_its_proof(found, solution):
    explained = explain(found, solution)
    assert explained.seconds == solution.cost
    assert (explained.optimal, explained.gap) == (True, 0.0)
    assert explained.method == solution.method
    nodes = sum(row.option.seconds for row in explained.nodes)
    assert explained.seconds == pytest.approx(nodes + explained.transform_seconds)


def test_every_alternative_has_the_price_of_the_whole_network(found, solution):
    explained = explain(found, solution)
    for i, row in enumerate(explained.nodes):
        options = found.options[i]
        assert row.option == options[solution.choice[i]]
        assert row.candidates == len(options)
        assert {row.option, *(other.option for other in row.alternatives)} == set(options)
        for other in row.alternatives:
            expected = forced(found, **{row.node.id: [options.index(other.option)]})
            assert other.network_seconds == pytest.approx(expected)
        prices = [other.network_seconds for other in row.alternatives]
        assert prices == sorted(prices)
        assert row.runner_up is None or row.runner_up.network_seconds >= solution.cost - 1e-12


def test_one_by_one_the_runner_up_is_the_same(found, solution, too_wide):
    one_by_one = explain(found, solution)
    for row in one_by_one.nodes:
        i = [node.id for node in found.graph.nodes].index(row.node.id)
        others = [k for k in range(len(found.options[i])) if k != solution.choice[i]]
        if not others:
            assert row.runner_up is None
            continue
        assert row.runner_up.network_seconds == pytest.approx(
            forced(found, **{row.node.id: others})
        )
        assert len(row.alternatives) == 1
    assert one_by_one.greedy_seconds == pytest.approx(_greedy(found))
    assert all(row.if_source is not None for row in one_by_one.transforms)


def test_without_time_unknown_prices_are_none(found, solution, too_wide):
    explained = explain(found, solution, time_limit=0)
    assert all(row.runner_up is None for row in explained.nodes)
    assert explained.greedy_seconds is None
    # The input has plain NCHW only: that needs no search.
    first = explained.transforms[0]
    assert (first.if_source, first.if_targets) == (math.inf, math.inf)
    assert explained.seconds == solution.cost


def test_transforms_and_what_they_save(found, solution):
    explained = explain(found, solution)
    first, last = explained.transforms[0], explained.transforms[-1]
    assert (first.source.id, [target.id for target in first.targets]) == ("data", ["a"])
    assert (first.before, first.if_source, first.if_targets) == (NCHW, math.inf, math.inf)
    assert (last.targets[0].id, last.after) == ("output", NCHW)
    index = {node.id: i for i, node in enumerate(found.graph.nodes)}
    picked = dict(zip(index, found.picked(solution.choice), strict=True))
    for row in explained.transforms:
        assert row.seconds == price(row.shape, row.before, row.after) > 0
        assert row.before == picked[row.source.id].writes
        assert all(picked[target.id].reads == row.after for target in row.targets)
        for layout, found_price in ((row.after, row.if_source), (row.before, row.if_targets)):
            allowed = {
                target.id: _options(found, index[target.id], reads=layout) for target in row.targets
            }
            allowed[row.source.id] = _options(found, index[row.source.id], writes=layout)
            if all(allowed.values()):
                assert found_price == pytest.approx(forced(found, **allowed))
            else:
                assert found_price == math.inf


def _options(found: LayoutGraph, i: int, **layout: Layout) -> list[int]:
    [(side, wanted)] = layout.items()
    return [k for k, option in enumerate(found.options[i]) if getattr(option, side) == wanted]


def _greedy(found: LayoutGraph) -> float:
    fastest = {
        node.id: [int(found.problem.node_costs[i].argmin())]
        for i, node in enumerate(found.graph.nodes)
        if node.workload is not None
    }
    return forced(found, **fastest)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_never_better(seed):
    found = residual_blocks(2, seed)
    explained = explain(found, solve(found.problem))
    assert explained.greedy_seconds == pytest.approx(_greedy(found))
    assert explained.greedy_seconds >= explained.seconds - 1e-12


def test_measured_schemes_are_told_from_predicted_ones(found, solution):
    node, option = found.graph.nodes[1], found.options[1][solution.choice[1]]
    explained = explain(found, solution, measured=[(node.workload, option.config)])
    known = [explained.is_measured(row.node, row.option) for row in explained.nodes]
    assert known == [row.node == node for row in explained.nodes]


def test_a_poor_choice_is_explained_as_it_is(found, solution):
    poor = replace(
        solution, choice=(0,) * len(found.options) + solution.choice[len(found.options) :]
    )
    plan = plan_of(found, poor)
    planned = solution_of(found, plan, solution)
    explained = explain(found, planned)
    assert not planned.optimal
    assert planned.lower_bound == solution.lower_bound
    assert explained.gap == pytest.approx(1 - solution.cost / planned.cost)
    assert min(
        row.runner_up.network_seconds for row in explained.nodes if row.runner_up
    ) == pytest.approx(solution.cost)


def test_a_plan_is_a_solution_again(found, solution):
    plan = plan_of(found, solution)
    again = solution_of(found, plan, solution)
    assert again.choice[: len(found.options)] == solution.choice[: len(found.options)]
    assert (again.cost, again.optimal) == (pytest.approx(solution.cost), True)
    assert again.method == plan.method


def test_pricing_a_plan_has_a_deadline(found, solution, monkeypatch):
    given = []

    def remembered(problem, keep, deadline):
        given.append(deadline.remaining)

    monkeypatch.setattr(choose, "solve_among", remembered)
    plan = plan_of(found, solution)
    assert solution_of(found, plan, solution) is None
    assert solution_of(found, plan, solution, time_limit=2) is None
    assert 5 < given[0] <= choose.TIME_LIMIT
    assert 0 < given[1] <= 2


def test_a_plan_of_other_schemes_is_none(found, solution):
    plan = plan_of(found, solution)
    other = {**plan.configs, "a": ConvConfig(2, 2, 1)}
    assert solution_of(found, replace(plan, configs=other), solution) is None
    assert solution_of(found, replace(plan, graph="0" * 16), solution) is None
    assert solution_of(found, replace(plan, joins={}), solution) is None


def test_hundreds_of_nodes_are_priced_at_once():
    found = residual_blocks(60)
    explained = explain(found, solve(found.problem))
    assert len(explained.nodes) == 3 + 3 * 60
    assert all(row.runner_up for row in explained.nodes if row.candidates > 1)
