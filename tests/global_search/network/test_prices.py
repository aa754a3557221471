"""The best networks under a condition, with tables and without."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.global_search.network import prices
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.global_search.network.prices import Prices
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 16, 4, 4)
NEVER = Deadline(math.inf)


def transform(shape: Shape4, before: Layout, after: Layout) -> float:
    return 0.0 if before == after else 8.0


@pytest.fixture
def chain() -> Prices:
    """a -> b: a writes block 8 in 1 s or 16 in 4 s, b reads block 8 in 9 s or 16 in 2 s."""
    work = {name: ConvWorkload(1, 16, 4, 4, 16, (1, 1), types=uniform(name)) for name in "ab"}
    nodes = tuple(GraphNode(name, NodeKind.CONV, name, SHAPE, work[name]) for name in "ab")
    graph = ConvGraph(nodes, (GraphEdge("a", "b", SHAPE, "a"),))
    candidates = {
        work["a"]: (Candidate(ConvConfig(8, 8, 1), 1.0), Candidate(ConvConfig(8, 16, 1), 4.0)),
        work["b"]: (Candidate(ConvConfig(8, 8, 1), 9.0), Candidate(ConvConfig(16, 8, 1), 2.0)),
    }
    return Prices(build_layout_graph(graph, candidates, transform))


@pytest.fixture(params=["tables", "searches"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tables, and as if they were too large."""
    if request.param == "searches":
        monkeypatch.setattr(prices, "min_cost", lambda _: None)


def mask(*marked: bool) -> np.ndarray:
    return np.array(marked)


def test_the_price_of_marked_options(chain: Prices, either: None) -> None:
    assert chain.min_among({}, NEVER) == 4 + 2
    assert chain.min_among({0: mask(True, False)}, NEVER) == 1 + 9
    assert chain.min_among({0: mask(True, False), 1: mask(False, True)}, NEVER) == 1 + 8 + 2


def test_no_marked_option_costs_infinity(chain: Prices) -> None:
    assert chain.min_among({0: mask(False, False)}, Deadline(-math.inf)) == math.inf


def test_without_time_there_is_no_price(chain: Prices) -> None:
    assert chain.min_among({}, Deadline(-math.inf)) is None
    assert chain.without(0, 1, Deadline(-math.inf)) is None


def test_the_best_network_without_an_option(chain: Prices) -> None:
    found = chain.without(0, 1, NEVER)
    assert found is not None
    assert (found.choice, found.cost) == ((0, 0), 1 + 9)


def test_the_price_of_every_option(chain: Prices) -> None:
    found = chain.of_all_options()
    assert found is not None
    assert [costs.tolist() for costs in found[:2]] == [[10.0, 6.0], [10.0, 6.0]]
