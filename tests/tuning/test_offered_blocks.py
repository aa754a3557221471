"""Blocks in which a concat of odd parts offers its channels, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.tuning.candidates import candidates_of
from tvm_neocpu.tuning.offered_blocks import offered_blocks

CPU = Cpu("testcpu", AVX512, 1)
# Depthwise, and 1x1, over 48 channels of a large image.
DEEP = ConvWorkload(1, 48, 160, 160, 48, (3, 3), padding=(1, 1, 1, 1), groups=48)
POINT = ConvWorkload(1, 48, 160, 160, 32, (1, 1))


def behind_concat(reader: ConvWorkload, parts: Sequence[int], joins: int = 1) -> ConvGraph:
    """Convolutions of so many outputs, their concat, further joins of its channels, a reader."""
    nodes, edges = [], []
    for at, count in enumerate(parts):
        conv = ConvWorkload(1, 16, 160, 160, count, (1, 1))
        nodes.append(GraphNode(f"part{at}", NodeKind.CONV, "part", conv.out_shape, conv))
        edges.append(GraphEdge(f"part{at}", "join0", conv.out_shape, f"part{at}"))
    whole = reader.in_shape
    for at in range(joins):
        channels = tuple(sorted(set(parts))) if at == 0 else (reader.in_channels,)
        name, after = f"join{at}", f"join{at + 1}" if at + 1 < joins else "reader"
        nodes.append(GraphNode(name, NodeKind.JOIN, "join", whole, join_channels=channels))
        edges.append(GraphEdge(name, after, whole, name))
    nodes.append(GraphNode("reader", NodeKind.CONV, "reader", reader.out_shape, reader))
    return ConvGraph(tuple(nodes), tuple(edges))


@pytest.mark.parametrize("joins", [1, 2], ids=["concat", "concat, then another join"])
def test_a_reader_is_offered_what_all_parts_have(joins: int) -> None:
    assert offered_blocks(behind_concat(POINT, (24, 24), joins), CPU) == {POINT: {8, 24}}
    assert offered_blocks(behind_concat(POINT, (40, 8), joins), CPU) == {POINT: {8}}


def test_whole_vectors_offer_nothing_more() -> None:
    assert not offered_blocks(behind_concat(POINT, (16, 32)), CPU)
    assert not offered_blocks(behind_concat(POINT, (24, 24)), Cpu("testcpu", AVX2, 1))
    assert not offered_blocks(behind_concat(POINT, (21, 27)), CPU)


@pytest.mark.parametrize("reader", [DEEP, POINT], ids=["depthwise", "1x1"])
def test_the_search_may_read_them(reader: ConvWorkload) -> None:
    """A depthwise layer writes them, too; a dense one's outputs stay whole vectors."""
    alone = {candidate.config.ic_bn for candidate in best_per_layout(reader, CPU)}
    assert 24 not in alone
    found = candidates_of(behind_concat(reader, (24, 24)), CPU, {})[reader]
    read = [scheme.config for scheme in found if scheme.config.ic_bn == 24]
    assert read
    for config in read:
        assert config.oc_bn == 24 if reader is DEEP else config.oc_bn % 16 == 0
