"""The conv graph: its tasks, its neighbourhoods, its hash."""

from __future__ import annotations

import dataclasses

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload

SHAPE = (1, 16, 8, 8)
SQUARE = ConvWorkload(1, 16, 8, 8, 16, (3, 3), padding=(1, 1, 1, 1))
DENSE = DenseWorkload(1, 16, 10)


def conv(name: str) -> GraphNode:
    return GraphNode(name, NodeKind.CONV, "conv", SHAPE, SQUARE)


DATA = GraphNode("data", NodeKind.BOUNDARY, "data", SHAPE)
SUM = GraphNode("sum", NodeKind.JOIN, "add", SHAPE, join_channels=(16,))
HEAD = GraphNode("head", NodeKind.CONV, "dense", (1, 10, 1, 1), DENSE)


def edge(src: str, dst: str) -> GraphEdge:
    return GraphEdge(src, dst, SHAPE, tensor=src)


RESIDUAL = ConvGraph(
    (DATA, conv("a"), conv("b"), SUM, HEAD),
    (edge("data", "a"), edge("a", "b"), edge("a", "sum"), edge("b", "sum"), edge("sum", "head")),
)


def test_a_task_for_every_distinct_workload() -> None:
    assert RESIDUAL.workloads == (SQUARE, DENSE)
    assert [node.id for node in RESIDUAL.convs] == ["a", "b", "head"]


def test_joins_and_neighbours() -> None:
    assert RESIDUAL.joins == {"sum"}
    assert RESIDUAL.neighbours["a"] == {"data", "b", "sum"}
    assert RESIDUAL.neighbours["head"] == {"sum"}


def test_sources_are_one_for_each_edge() -> None:
    assert RESIDUAL.sources["data"] == ()
    assert RESIDUAL.sources["head"] == ("sum",)
    assert sorted(RESIDUAL.sources["sum"]) == ["a", "b"]
    assert RESIDUAL.by_id["sum"] is SUM


def test_equal_networks_have_equal_hashes_in_whatever_order() -> None:
    turned = ConvGraph(RESIDUAL.nodes[::-1], RESIDUAL.edges[::-1])
    assert turned.hash == RESIDUAL.hash
    assert len(RESIDUAL.hash) == 16


def test_another_node_edge_or_size_is_another_hash() -> None:
    larger = dataclasses.replace(RESIDUAL.edges[0], shape=(2, 16, 8, 8))
    others = [
        ConvGraph((*RESIDUAL.nodes, conv("c")), RESIDUAL.edges),
        ConvGraph(RESIDUAL.nodes, RESIDUAL.edges[1:]),
        ConvGraph(RESIDUAL.nodes, (larger, *RESIDUAL.edges[1:])),
    ]
    hashes = {graph.hash for graph in others}
    assert len(hashes) == 3
    assert RESIDUAL.hash not in hashes
