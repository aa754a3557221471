"""The plans to compare with: what they choose, and that none is cheaper than the optimum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.global_search import Solution
from tvm_neocpu.global_search.network.baselines import (
    fastest_schemes,
    random_schemes,
    schemes_of_one_layout,
    solve_marked,
)
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, build_layout_graph
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 16, 4, 4)
BLOCKS = (4, 8, 16)


def price(shape: Shape4, before: Layout, after: Layout) -> float:
    return 0.0 if before == after else 1.0


def network(seed: int = 0, reads: tuple[int, ...] = BLOCKS) -> LayoutGraph:
    """data -> a -> b -> sum of a and b -> c -> output; ``a`` reads the blocks ``reads`` only."""
    rng = np.random.default_rng(seed)
    workloads = {n: ConvWorkload(1, 16, 4, 4, 16, (1, 1), types=uniform(n)) for n in "abc"}
    nodes = (
        GraphNode("data", NodeKind.BOUNDARY, "data", SHAPE),
        *(GraphNode(n, NodeKind.CONV, n, SHAPE, workloads[n]) for n in "ab"),
        GraphNode("sum", NodeKind.JOIN, "add", SHAPE, join_channels=(16,)),
        GraphNode("c", NodeKind.CONV, "c", SHAPE, workloads["c"]),
        GraphNode("output", NodeKind.BOUNDARY, "output", SHAPE),
    )
    ends = ["data a", "a b", "a sum", "b sum", "sum c", "c output"]
    edges = tuple(GraphEdge(*pair.split(), SHAPE, pair.split()[0]) for pair in ends)
    candidates = {
        workload: tuple(
            Candidate(ConvConfig(x, y, 1), float(rng.random()))
            for x, y in itertools.product(reads if name == "a" else BLOCKS, BLOCKS)
        )
        for name, workload in workloads.items()
    }
    return build_layout_graph(ConvGraph(nodes, edges), candidates, price)


def conv_configs(found: LayoutGraph, solution: Solution) -> dict[str, ConvConfig]:
    picked = found.picked(solution.choice)
    return {n.id: o.config for n, o in zip(found.graph.nodes, picked, strict=True) if o.config}


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_every_fastest_scheme_and_is_never_cheaper(seed: int) -> None:
    found = network(seed)
    optimum = solve(found.problem)
    greedy = solve_marked(found, fastest_schemes(found), optimum, "greedy")
    costs = found.problem.node_costs
    for i, node in enumerate(found.graph.nodes):
        if node.workload is not None:
            assert costs[i][greedy.choice[i]] == costs[i].min()
    assert greedy.cost >= optimum.cost
    assert greedy.cost == found.problem.cost(greedy.choice)
    assert (greedy.method, greedy.lower_bound) == ("greedy", optimum.cost)


def test_greedy_is_no_optimum_where_transforms_cost_more_than_schemes_differ() -> None:
    found = network(0)
    optimum = solve(found.problem)
    greedy = solve_marked(found, fastest_schemes(found), optimum, "greedy")
    assert greedy.cost > optimum.cost
    assert not greedy.optimal


def test_one_layout_for_all() -> None:
    found = network(3, reads=(4,))
    marked = schemes_of_one_layout(found, Layout(8))
    chosen = solve_marked(found, marked, solve(found.problem), "all")
    configs = conv_configs(found, chosen)
    # The first convolution cannot read the layout, but it can write it.
    assert (configs["a"].ic_bn, configs["a"].oc_bn) == (4, 8)
    assert all((configs[n].ic_bn, configs[n].oc_bn) == (8, 8) for n in "bc")
    picked = dict(zip((n.id for n in found.graph.nodes), found.picked(chosen.choice), strict=True))
    assert picked["sum"].writes == Layout(8)


def test_random_schemes_change_the_given_share() -> None:
    found = network(1)
    optimum = solve(found.problem)
    start = conv_configs(found, optimum)
    changed = []
    for seed in range(40):
        some = solve_marked(found, random_schemes(found, optimum, 1 / 3, seed), optimum, "random")
        configs = conv_configs(found, some)
        changed.append(sum(configs[n] != start[n] for n in "abc"))
        assert some.cost >= optimum.cost
    assert set(changed) == {0, 1}  # the random scheme may be the old one


def test_the_seed_decides() -> None:
    found = network(1)
    optimum = solve(found.problem)
    one, again, other = (
        {i: tuple(mask) for i, mask in random_schemes(found, optimum, 1.0, seed).items()}
        for seed in (7, 7, 8)
    )
    assert one == again
    assert one != other
