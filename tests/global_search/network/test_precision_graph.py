"""Layouts and precisions in one problem: what every choice of both costs, and its noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import BF16_WEIGHTS, U8S8, uniform
from tvm_neocpu.global_search.network.precision_graph import (
    HalfPrecision,
    LowPrecision,
    PrecisionGraph,
    build_precision_graph,
)
from tvm_neocpu.global_search.solvers.within_bound import solve_within
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 16, 4, 4)
CONVERSION = 0.5
POWERS = {"t1": 0.3, "t2": 0.2, "data": 0.1}


def conv(name: str) -> GraphNode:
    workload = ConvWorkload(1, 16, 4, 4, 16, (1, 1), types=uniform("float32"))
    return GraphNode(name, NodeKind.CONV, "conv", SHAPE, replace(workload, height=len(name) + 3))


def edge(src: str, dst: str, tensor: str) -> GraphEdge:
    return GraphEdge(src, dst, SHAPE, tensor)


# data - a - t1 - b - t2 - out, and t1 - c - t3 - out: t1 is read by both b and c.
GRAPH = ConvGraph(
    (
        GraphNode("data", NodeKind.BOUNDARY, "data", SHAPE),
        conv("a"),
        conv("bb"),
        conv("ccc"),
        GraphNode("out", NodeKind.BOUNDARY, "output", SHAPE),
    ),
    (
        edge("data", "a", "data"),
        edge("a", "bb", "t1"),
        edge("a", "ccc", "t1"),
        edge("bb", "out", "t2"),
        edge("ccc", "out", "t3"),
    ),
)


def scheme(ic_bn: int, oc_bn: int, seconds: float, low: bool = False) -> Candidate:
    return Candidate(ConvConfig(ic_bn, oc_bn, 1), seconds, U8S8 if low else None)


def price(shape: Shape4, before: Layout, after: Layout, dtype: str = "float32") -> float:
    if max(before.block, 1) == max(after.block, 1):
        return 0.0
    return 0.25 if dtype == "uint8" else 1.0


CANDIDATES = {
    node.workload: (scheme(8, 8, 3.0), scheme(16, 16, 3.25))
    for node in GRAPH.convs
    if node.workload is not None
}
LOW = {
    "a": LowPrecision((scheme(16, 8, 2.0, low=True),), 0.01, "data"),
    "bb": LowPrecision((scheme(16, 16, 1.0, low=True),), 0.02, "t1"),
    "ccc": LowPrecision((scheme(8, 8, 2.5, low=True),), 0.04, "t1"),
}


def built(low: dict[str, LowPrecision]) -> PrecisionGraph:
    return build_precision_graph(GRAPH, CANDIDATES, price, low, POWERS, lambda _: CONVERSION)


def accounted(found: PrecisionGraph, choice: Sequence[int]) -> tuple[float, float]:
    """(seconds, noise) without matrices."""
    of = dict(zip((n.id for n in GRAPH.nodes), found.layout_graph.picked(choice), strict=True))
    seconds = sum(option.seconds for option in of.values())
    noise = sum(LOW[id].own for id, option in of.items() if option.types is not None)
    moves = {(e.tensor, of[e.src].writes, of[e.dst].reads, of[e.dst].elements(e)) for e in EDGES}
    seconds += sum(price(SHAPE, *move[1:]) for move in moves)
    for tensor in ("data", "t1"):
        readers = [of[e.dst] for e in GRAPH.edges if e.tensor == tensor]
        if any(reader.types is not None for reader in readers):
            noise += POWERS[tensor]
            seconds += CONVERSION * sum(reader.types is None for reader in readers)
    return seconds, noise


EDGES = GRAPH.edges


def every_choice(found: PrecisionGraph) -> dict[tuple[int, ...], tuple[float, float]]:
    """The cheapest (seconds, noise) of every choice of options, over transforms and roundings."""
    problem, count = found.problem, len(GRAPH.nodes)
    best: dict[tuple[int, ...], tuple[float, float]] = {}
    for choice in itertools.product(*(range(costs.size) for costs in problem.node_costs)):
        seconds = problem.cost(choice)
        if math.isfinite(seconds):
            noise = math.fsum(n[k] for n, k in zip(found.noise, choice, strict=True))
            pair = (noise, seconds)
            own = choice[:count]
            best[own] = min(best.get(own, pair), pair)
    return {own: (seconds, noise) for own, (noise, seconds) in best.items()}


def test_every_choice_costs_its_parts() -> None:
    """A boundary's conversion is part of the scheme's seconds."""
    found = built(LOW)
    choices = every_choice(found)
    assert len(choices) == 3**3
    for choice, pair in choices.items():
        assert pair == pytest.approx(accounted(found, choice)), found.low(choice)
    (option,) = found.layout_graph.options[1][2:]
    assert option.seconds == 2.0 + CONVERSION


def test_a_layer_that_may_not_pays_for_what_its_neighbour_rounds() -> None:
    found = built({"bb": LOW["bb"]})
    choices = every_choice(found)
    assert len(choices) == 2 * 3 * 2
    for choice, pair in choices.items():
        assert pair == pytest.approx(accounted(found, choice)), found.low(choice)


@pytest.mark.parametrize(
    ("bound", "is_corner"),
    [(0.0, True), (0.1, True), (0.15, True), (0.33, True), (0.37, False), (0.5, True), (1.0, True)],
)
def test_the_fastest_plan_within_a_bound(bound: float, is_corner: bool) -> None:
    """Between two corners of the hull a faster plan may be missed; the gap says by how much."""
    found = built(LOW)
    wanted = min(s for s, noise in every_choice(found).values() if noise <= bound + 1e-12)
    answer = solve_within(found.problem, found.noise, bound + 1e-12)
    assert answer is not None
    assert answer.noise <= bound + 1e-12
    assert (answer.cost == pytest.approx(wanted)) == is_corner
    assert answer.cost * (1 - answer.gap) - 1e-9 <= wanted <= answer.cost + 1e-9


def test_nodes_in_low_precision_have_names() -> None:
    found = built(LOW)
    assert found.low([0, 2, 0, 2, 0, *[0] * 9]) == {"a", "ccc"}
    assert found.low([0] * 20) == frozenset()
    assert all(np.isfinite(noise).all() for noise in found.noise)


def test_half_precision_is_one_more_choice_of_a_layer() -> None:
    """It makes its own noise, and costs nobody a conversion; beside int8 readers it widens."""
    halved = replace(scheme(16, 16, 2.75), types=BF16_WEIGHTS)
    halves = {"ccc": [HalfPrecision((halved,), 0.001)]}
    found = build_precision_graph(
        GRAPH, CANDIDATES, price, {"bb": LOW["bb"]}, POWERS, lambda _: CONVERSION, halves=halves
    )
    choices = every_choice(found)
    plain = every_choice(built({"bb": LOW["bb"]}))
    assert len(choices) == 2 * 3 * 3
    for choice, (seconds, noise) in choices.items():
        if choice[3] < 2:
            assert (seconds, noise) == pytest.approx(plain[choice])
            continue
        # As the fp32 scheme of the same layouts, but for its own seconds and noise.
        alike, quiet = plain[(*choice[:3], 1, *choice[4:])]
        assert seconds == pytest.approx(alike - 3.25 + 2.75)
        assert noise == pytest.approx(quiet + 0.001)
    some = [0, 0, 0, 2, 0, *[0] * (len(found.problem) - 5)]
    assert found.types(some) == {"ccc": BF16_WEIGHTS} and found.low(some) == frozenset()
