"""The layout problem of a conv graph: what every choice of layouts costs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import (
    ConvGraph,
    GraphEdge,
    GraphNode,
    NodeKind,
    Shape4,
    Sweep,
    SweepKind,
)
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, Option, build_layout_graph
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

SHAPE = (1, 16, 4, 4)
DATA = GraphNode("data", NodeKind.BOUNDARY, "data", SHAPE)
OUT = GraphNode("out", NodeKind.BOUNDARY, "output", (1, 1, 1, 1))


def workload(name: str) -> ConvWorkload:
    """A workload of its own for every name."""
    return ConvWorkload(1, 16, 4, 4, 16, (1, 1), types=uniform(name))


def conv(name: str) -> GraphNode:
    return GraphNode(name, NodeKind.CONV, "conv", SHAPE, workload(name))


def join(name: str, *channels: int) -> GraphNode:
    return GraphNode(name, NodeKind.JOIN, "add", SHAPE, join_channels=channels or (16,))


def edge(src: str, dst: str, tensor: str = "", shape: Shape4 = SHAPE) -> GraphEdge:
    return GraphEdge(src, dst, shape, tensor or src)


def schemes(*blocks: tuple[int, int], seconds: float = 1.0) -> tuple[Candidate, ...]:
    """A scheme per (ic_bn, oc_bn). The first takes ``seconds``, the second twice that, ..."""
    return tuple(
        Candidate(ConvConfig(ic_bn, oc_bn, 1), seconds * (i + 1))
        for i, (ic_bn, oc_bn) in enumerate(blocks)
    )


def price(shape: Shape4, before: Layout, after: Layout) -> float:
    """A different price for every pair of layouts; 0 if no element moves."""
    if max(before.block, 1) == max(after.block, 1):
        return 0.0
    return 1e-3 * shape[1] * (100 + 10 * before.block + after.block)


def cost(found: LayoutGraph, **choice: int) -> float:
    """The cost of a choice for the graph's nodes, with the best choice of shared transforms.

    choice: candidate numbers by node; 0 for every other node.
    """
    picked = [choice.get(node.id, 0) for node in found.graph.nodes]
    shared = len(found.problem) - len(picked)
    return min(
        found.problem.cost((*picked, *made)) for made in itertools.product((0, 1), repeat=shared)
    )


def accounted(found: LayoutGraph, picked: Sequence[Option]) -> float:
    """The expected cost, without matrices: every node, and every transform of a tensor once."""
    of = dict(zip([node.id for node in found.graph.nodes], picked, strict=True))
    moves = {
        (e.tensor, e.shape, of[e.src].writes, of[e.dst].reads)
        for e in found.graph.edges
        if e.shape[1] > 1
    }
    return sum(o.seconds for o in picked) + sum(
        price(shape, before, after) for _, shape, before, after in moves
    )


CHAIN = ConvGraph(
    (DATA, conv("a"), conv("b"), OUT), (edge("data", "a"), edge("a", "b"), edge("b", "out"))
)
CHAIN_SCHEMES = {workload("a"): schemes((8, 16), (8, 4)), workload("b"): schemes((16, 8), (4, 8))}


def test_a_chain_pays_for_every_disagreement() -> None:
    found = build_layout_graph(CHAIN, CHAIN_SCHEMES, price)
    ends = price(SHAPE, NCHW, Layout(8)) + price(SHAPE, Layout(8), NCHW)
    assert cost(found, a=0, b=0) == pytest.approx(1 + 1 + ends)
    assert cost(found, a=1, b=1) == pytest.approx(2 + 2 + ends)
    between = price(SHAPE, Layout(16), Layout(4))
    assert cost(found, a=0, b=1) == pytest.approx(1 + 2 + ends + between)


def test_options_hold_layouts_seconds_and_config() -> None:
    found = build_layout_graph(CHAIN, CHAIN_SCHEMES, price)
    data, first, _, out = found.options
    assert data == out == (Option(NCHW, NCHW),)
    assert first[1] == Option(Layout(8), Layout(4), 2.0, ConvConfig(8, 4, 1))


def test_what_runs_beside_a_node_costs_by_its_layouts_and_config() -> None:
    """The second scheme of ``a`` is slower, but what follows it is cheaper in 4c."""

    def beside(node: GraphNode, reads: Layout, writes: Layout, config: Config | None) -> float:
        if node.id != "a":
            return 0.0
        assert config is not None and reads == Layout(8)
        return {16: 5.0, 4: 0.5}[writes.block]

    plain = build_layout_graph(CHAIN, CHAIN_SCHEMES, price)
    found = build_layout_graph(CHAIN, CHAIN_SCHEMES, price, beside)
    assert [option.sweeps for option in found.options[1]] == [5.0, 0.5]
    assert found.options[1][0].total == pytest.approx(1.0 + 5.0)
    for a, b in itertools.product((0, 1), repeat=2):
        extra = (5.0, 0.5)[a]
        assert cost(found, a=a, b=b) == pytest.approx(cost(plain, a=a, b=b) + extra)


def test_what_is_read_through_is_copied_in_front_of_a_transform() -> None:
    """``b`` reads through a concat, unless ``a`` writes another layout than it reads."""
    concat = Sweep(SweepKind.MOVE, (SHAPE,), SHAPE)
    nodes = [replace(n, read_sweeps=(concat,)) if n.id == "b" else n for n in CHAIN.nodes]

    def copy(node: GraphNode, reads: Layout, writes: Layout, config: Config | None) -> float:
        return 0.5 if node.read_sweeps and config is None else 0.0

    plain = build_layout_graph(CHAIN, CHAIN_SCHEMES, price)
    found = build_layout_graph(replace(CHAIN, nodes=tuple(nodes)), CHAIN_SCHEMES, price, copy)
    for a, b in itertools.product((0, 1), repeat=2):
        extra = 0.0 if a == b else 0.5
        assert cost(found, a=a, b=b) == pytest.approx(cost(plain, a=a, b=b) + extra)


def test_rounding_is_paid_where_a_tensor_is_not_stored_so() -> None:
    """Between two convolutions in one layout: not in another one, nor what comes from outside."""
    found = dict(CHAIN_SCHEMES)
    found[workload("a")] = tuple(replace(c, rounding=0.25) for c in found[workload("a")])
    found[workload("b")] = tuple(replace(c, rounding=0.5) for c in found[workload("b")])
    before, after = (build_layout_graph(CHAIN, each, price) for each in (CHAIN_SCHEMES, found))
    for a, b in itertools.product((0, 1), repeat=2):
        saved = 0.5 if a == b else 0.0
        assert cost(after, a=a, b=b) == pytest.approx(cost(before, a=a, b=b) - saved)


def test_a_tensor_of_two_readers_is_not_stored_rounded() -> None:
    found = {workload(name): schemes((16, 16)) for name in "abc"}
    rounding = {key: tuple(replace(c, rounding=0.5) for c in own) for key, own in found.items()}
    before, after = (build_layout_graph(FORK, each, price) for each in (found, rounding))
    assert cost(before) == cost(after)


FORK = ConvGraph(
    (DATA, conv("a"), conv("b"), conv("c")), (edge("data", "a"), edge("a", "b"), edge("a", "c"))
)


def test_consumers_that_read_the_same_layout_share_its_transform() -> None:
    plain = {workload("a"): schemes((0, 16)), workload("b"): schemes((8, 8), (16, 8))}
    found = build_layout_graph(FORK, {**plain, workload("c"): schemes((8, 8), (4, 8))}, price)
    to8, to4 = price(SHAPE, Layout(16), Layout(8)), price(SHAPE, Layout(16), Layout(4))
    assert cost(found) == pytest.approx(1 + 1 + 1 + to8)
    assert cost(found, c=1) == pytest.approx(1 + 1 + 2 + to8 + to4)
    assert cost(found, b=1) == pytest.approx(1 + 2 + 1 + to8)
    assert cost(found, b=1, c=1) == pytest.approx(1 + 2 + 2 + to4)


def sum_of(*edges: GraphEdge) -> LayoutGraph:
    graph = ConvGraph((DATA, conv("a"), join("sum")), (edge("data", "a"), *edges))
    return build_layout_graph(graph, {workload("a"): schemes((0, 16))}, price)


def test_two_edges_of_one_tensor_into_one_node_pay_once() -> None:
    """x + x."""
    found = sum_of(edge("a", "sum", "x"), edge("a", "sum", "x"))
    assert found.options[2] == (Option(NCHW, NCHW), Option(Layout(16), Layout(16)))
    assert cost(found) == pytest.approx(1 + price(SHAPE, Layout(16), NCHW))
    assert cost(found, sum=1) == 1


def test_two_tensors_of_one_node_into_one_node_pay_twice() -> None:
    """x * sigmoid(x)."""
    found = sum_of(edge("a", "sum", "x"), edge("a", "sum", "sigmoid(x)"))
    assert cost(found) == pytest.approx(1 + 2 * price(SHAPE, Layout(16), NCHW))
    assert cost(found, sum=1) == 1


def test_a_pixel_is_priced_as_a_pixel() -> None:
    gate = (1, 16, 1, 1)
    found = sum_of(edge("a", "sum", "x"), edge("a", "sum", "mean", gate))
    both = price(SHAPE, Layout(16), NCHW) + price(gate, Layout(16), NCHW)
    assert cost(found) == pytest.approx(1 + both)


def test_a_single_channel_goes_into_any_join_for_free() -> None:
    """AlterOpLayout stores it as NCHW1c, which is the same memory."""
    graph = ConvGraph(
        (DATA, GraphNode("mask", NodeKind.BOUNDARY, "mask", (1, 1, 4, 4)), conv("a"), join("sum")),
        (edge("data", "a"), edge("a", "sum"), edge("mask", "sum", shape=(1, 1, 4, 4))),
    )
    found = build_layout_graph(graph, {workload("a"): schemes((0, 16))}, price)
    assert cost(found, sum=1) == 1
    forked = ConvGraph((*graph.nodes, OUT), (*graph.edges, edge("mask", "out", shape=(1, 1, 4, 4))))
    assert cost(build_layout_graph(forked, {workload("a"): schemes((0, 16))}, price), sum=1) == 1


def join_layouts(graph: ConvGraph, candidates: dict[Workload, tuple[Candidate, ...]]) -> list[int]:
    """The blocks that the last node, a join, may take."""
    return [
        option.reads.block for option in build_layout_graph(graph, candidates, price).options[-1]
    ]


def test_a_join_may_take_what_its_neighbours_read_and_write() -> None:
    graph = ConvGraph((conv("a"), conv("b"), join("sum")), (edge("a", "sum"), edge("sum", "b")))
    around = {workload("a"): schemes((2, 16), (2, 8)), workload("b"): schemes((4, 1))}
    assert join_layouts(graph, around) == [0, 1, 2, 4, 8, 16]


def test_a_join_sees_through_other_joins() -> None:
    graph = ConvGraph(
        (conv("a"), join("first"), join("second"), join("sum")),
        (edge("a", "first"), edge("first", "second"), edge("second", "sum")),
    )
    assert join_layouts(graph, {workload("a"): schemes((0, 16), (0, 8))}) == [0, 8, 16]


def test_a_block_divides_every_operand_of_a_join() -> None:
    graph = ConvGraph((conv("a"), join("concat", 16, 24)), (edge("a", "concat"),))
    blocks = schemes((0, 16), (0, 8), (0, 4), (0, 3))
    assert join_layouts(graph, {workload("a"): blocks}) == [0, 4, 8]


BLOCKS = st.sampled_from([0, 1, 4, 8, 16])


@st.composite
def graphs(draw: st.DrawFn) -> LayoutGraph:
    """Up to six convolutions and joins after an input; each reads one or two earlier tensors.

    A tensor is the output of a node, or an activation of that output, of the same size.
    """
    nodes, edges = [DATA], []
    candidates = {}
    for i in range(draw(st.integers(1, 6))):
        name = f"n{i}"
        if draw(st.booleans()):
            nodes.append(conv(name))
            blocks = draw(st.lists(st.tuples(BLOCKS, BLOCKS), min_size=1, max_size=3))
            candidates[workload(name)] = schemes(*blocks)
            reads = 1
        else:
            nodes.append(join(name))
            reads = 2
        for _ in range(reads):
            source = draw(st.sampled_from(nodes[:-1])).id
            edges.append(edge(source, name, draw(st.sampled_from([source, f"relu {source}"]))))
    edges.append(edge(nodes[-1].id, "out"))
    return build_layout_graph(ConvGraph((*nodes, OUT), tuple(edges)), candidates, price)


@given(found=graphs(), data=st.data())
@settings(max_examples=examples(100))
def test_any_choice_costs_what_its_nodes_and_transforms_do(
    found: LayoutGraph, data: st.DataObject
) -> None:
    choice = {
        node.id: data.draw(st.integers(0, len(options) - 1))
        for node, options in zip(found.graph.nodes, found.options, strict=True)
    }
    picked = [options[i] for options, i in zip(found.options, choice.values(), strict=True)]
    assert cost(found, **choice) == pytest.approx(accounted(found, picked))
