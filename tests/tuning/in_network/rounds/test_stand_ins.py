"""Plans of stand-ins: one config a workload, tied layouts agree, wishes are granted in order."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns

SHAPE = (1, 64, 14, 14)
A, B, C = (ConvWorkload(1, 64, 14, 14, 64, kernel) for kernel in ((1, 1), (3, 3), (5, 5)))


def conv(name: str, workload: ConvWorkload) -> GraphNode:
    return GraphNode(name, NodeKind.CONV, name, SHAPE, workload)


def config(reads: int, writes: int) -> ConvConfig:
    return ConvConfig(reads, writes, 14)


EIGHT, SIXTEEN = config(8, 8), config(16, 16)
ADD = GraphNode("add", NodeKind.JOIN, "add", SHAPE, join_channels=(64, 64))
# a -> add -> c, b -> add: a writes what c reads, b writes what it likes.
GRAPH = ConvGraph(
    (conv("a", A), conv("b", B), ADD, conv("c", C)),
    (
        GraphEdge("a", "add", SHAPE, "a"),
        GraphEdge("b", "add", SHAPE, "b"),
        GraphEdge("add", "c", SHAPE, "add"),
    ),
)
INCUMBENT = Plan(GRAPH.hash, dict.fromkeys("abc", EIGHT), {"add": Layout(8)})
SPARES = {workload: [EIGHT, SIXTEEN, config(8, 16), config(16, 8)] for workload in (A, B, C)}


def test_the_first_wish_decides_what_is_tied_to_it() -> None:
    plan, granted = StandIns(GRAPH).plan(INCUMBENT, {A: [config(8, 16)], C: [EIGHT]}, SPARES)
    assert granted == {A}
    assert plan.configs["a"] == config(8, 16)
    assert plan.joins["add"] == Layout(16)
    assert layouts_of(plan.configs["c"])[0] == Layout(16)
    assert plan.configs["b"] == EIGHT  # its first spare: nothing ties it


def test_a_wish_that_fits_is_taken_even_if_it_is_not_the_first() -> None:
    wishes = {C: [SIXTEEN], A: [EIGHT, config(8, 16)]}
    plan, granted = StandIns(GRAPH).plan(INCUMBENT, wishes, SPARES)
    assert granted == {A, C}
    assert plan.configs["a"] == config(8, 16)


def test_a_layout_that_does_not_fit_the_join_ties_nothing() -> None:
    """As of SqueezeNet's last convolution: of 1008 channels a join keeps 1000."""
    last = ConvWorkload(1, 64, 14, 14, 1008, (1, 1))
    keep = GraphNode("keep", NodeKind.JOIN, "slice", (1, 1000, 1, 1), join_channels=(1000, 1008))
    graph = ConvGraph(
        (conv("last", last), keep), (GraphEdge("last", "keep", (1, 1008, 1, 1), "last"),)
    )
    incumbent = Plan(graph.hash, {"last": config(16, 48)}, {"keep": Layout(0)})
    wishes = {last: [config(32, 48), config(32, 8)]}
    plan, granted = StandIns(graph).plan(incumbent, wishes, {last: [config(16, 48)]})
    assert granted == {last}
    assert plan.configs["last"] == config(32, 48)
    assert plan.joins["keep"] == Layout(0)
    tied, _ = StandIns(graph).plan(incumbent, {last: [config(32, 8)]}, {last: []})
    assert tied.joins["keep"] == Layout(8)


def test_joins_that_read_each_other_have_one_layout() -> None:
    second = GraphNode("sum", NodeKind.JOIN, "sum", SHAPE, join_channels=(64, 64))
    graph = ConvGraph(
        (*GRAPH.nodes, second, conv("d", A)),
        (
            *GRAPH.edges,
            GraphEdge("add", "sum", SHAPE, "add"),
            GraphEdge("c", "sum", SHAPE, "c"),
            GraphEdge("sum", "d", SHAPE, "sum"),
        ),
    )
    joins = {join: Layout(8) for join in ("add", "sum")}
    incumbent = Plan(graph.hash, dict.fromkeys("abcd", EIGHT), joins)
    # The workload of a and d writes "add" and reads "sum", which are one set: 8 -> 16 is refused.
    plan, granted = StandIns(graph).plan(incumbent, {A: [config(8, 16), SIXTEEN]}, SPARES)
    assert granted == {A}
    assert plan.configs["a"] == plan.configs["d"] == SIXTEEN
    assert set(plan.joins.values()) == {Layout(16)}
    assert plan.configs["c"] == SIXTEEN
    stand_ins = StandIns(graph)
    assert not stand_ins.can_time(A, config(8, 16))
    assert stand_ins.can_time(A, SIXTEEN)
    assert [stand_ins.can_time_all(workload) for workload in (A, B, C)] == [False, True, False]


def test_where_nothing_fits_a_layer_gives_up_its_ties() -> None:
    spares = {**SPARES, C: [config(32, 32)]}
    plan, _ = StandIns(GRAPH).plan(INCUMBENT, {A: [EIGHT]}, spares)
    assert plan.configs["c"] == config(32, 32)


@pytest.mark.parametrize("wishes", [{}, {A: []}])
def test_without_wishes_the_spares_stand_in(wishes) -> None:
    plan, granted = StandIns(GRAPH).plan(INCUMBENT, wishes, SPARES)
    assert granted == set()
    assert plan.configs == INCUMBENT.configs
