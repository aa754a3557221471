"""A small explained network, made without a model and without TVM's compiler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork
from tvm_neocpu.core.messages.fallback import Coverage, Fallback, Fixed
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind, Shape4
from tvm_neocpu.core.network.layer_group import GroupCandidate, GroupNode
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.global_search import solve
from tvm_neocpu.global_search.network.explain import explain
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload

SHAPE = (1, 64, 8, 8)
SQUARE = ConvWorkload(1, 64, 8, 8, 64, (3, 3), padding=(1, 1, 1, 1))
POINT = ConvWorkload(1, 64, 8, 8, 64, (1, 1))
DENSE = DenseWorkload(1, 64, 10)
# The name of an input in a careless or hostile ONNX file.
NASTY = '<script>alert("1")</script>'


def price(shape: Shape4, before: Layout, after: Layout) -> float:
    return 0.0 if before == after else 5e-6


@pytest.fixture
def network() -> ExplainedNetwork:
    """data -> 3x3 -> 1x1 -> add with the 3x3 -> output, and a dense layer of the sum's mean."""
    nodes = (
        GraphNode("d", NodeKind.BOUNDARY, NASTY, SHAPE),
        GraphNode("a", NodeKind.CONV, str(SQUARE), SHAPE, SQUARE),
        GraphNode("b", NodeKind.CONV, str(POINT), SHAPE, POINT),
        GraphNode("s", NodeKind.JOIN, "add", SHAPE, join_channels=(64,)),
        GraphNode("o", NodeKind.BOUNDARY, "output", SHAPE),
        GraphNode("f", NodeKind.CONV, str(DENSE), (1, 10, 1, 1), DENSE),
    )
    pairs = [("d", "a"), ("a", "b"), ("a", "s"), ("b", "s"), ("s", "o")]
    graph = ConvGraph(nodes, tuple(GraphEdge(x, y, SHAPE, x) for x, y in pairs), (("s", "f"),))
    winograd = WinogradConfig(16, 16, 4, 7, th_bn=2, parallel_oc=True)
    candidates = {
        SQUARE: (Candidate(winograd, 1e-4), Candidate(ConvConfig(0, 32, 14), 2e-4)),
        POINT: (Candidate(ConvConfig(16, 16, 14), 4e-5), Candidate(ConvConfig(32, 32, 7), 3.9e-5)),
        DENSE: (Candidate(DenseConfig(16, unroll_k=8), 1e-5),),
    }
    layout_graph = build_layout_graph(graph, candidates, price)
    explanation = explain(layout_graph, solve(layout_graph.problem), [(SQUARE, winograd)])
    flops = sum(node.workload.flops for node in graph.convs)
    return ExplainedNetwork("tiny", "testcpu", 2, "a search", explanation, Coverage(flops))


@pytest.fixture
def grouped(network: ExplainedNetwork) -> ExplainedNetwork:
    """Two layers that one function may compute, 10 us faster than one by one."""
    graph = ConvGraph(
        (
            GraphNode("a", NodeKind.CONV, str(SQUARE), SHAPE, SQUARE),
            GraphNode("b", NodeKind.CONV, str(POINT), SHAPE, POINT),
        ),
        (GraphEdge("a", "b", SHAPE, "y"),),
    )
    configs = (ConvConfig(16, 16, 8), ConvConfig(16, 16, 7))
    candidates = {
        SQUARE: (Candidate(configs[0], 1e-4),),
        POINT: (Candidate(configs[1], 4e-5),),
    }
    pair = GroupNode(("a", "b"), (GroupCandidate(configs, 4, 1e-5),))
    layout_graph = build_layout_graph(graph, candidates, price, groups=[pair])
    return replace(network, explanation=explain(layout_graph, solve(layout_graph.problem)))


@pytest.fixture
def partly(network: ExplainedNetwork) -> ExplainedNetwork:
    """The network, with as much arithmetic again that no template takes."""
    flops = network.coverage.planned_flops
    conv = Fallback("conv1d", "1x3x64, 8x3x5 -> 1x8x60", f"no template, says {NASTY}", flops)
    return replace(network, coverage=Coverage(flops, (conv,)))


@pytest.fixture
def unplanned() -> ExplainedNetwork:
    """A network of one operation, which no template takes."""
    layout_graph = build_layout_graph(ConvGraph((), ()), {}, price)
    explanation = explain(layout_graph, solve(layout_graph.problem))
    conv = Fallback("conv1d", "1x3x64, 8x3x5 -> 1x8x60", "no template for this operator", 300)
    return ExplainedNetwork("tiny", "testcpu", 2, "a search", explanation, Coverage(0, (conv,)))


@pytest.fixture
def recurrent(network: ExplainedNetwork) -> ExplainedNetwork:
    """The network, with a recurrent layer of 40 us."""
    layer = Fixed("LSTM", "25 steps, batch 1, hidden 48", "recurrence", 10**6, 4e-5)
    return replace(network, coverage=replace(network.coverage, fixed=(layer,)))
