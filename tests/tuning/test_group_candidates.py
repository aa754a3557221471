"""Which layers of a network may become a group, and what the cost model says they gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, KIB, Cpu
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.fused_block import cost
from tvm_neocpu.topi.fused_block.cost import (
    MARGIN,
    PricedBlock,
    apart_seconds,
    best_block,
    predict_seconds,
)
from tvm_neocpu.topi.fused_block.geometry import FusedBlock
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.tuning.group_candidates import groups_of, with_doubtful_groups, with_groups

ZEN3 = Cpu("znver3", AVX2, cores=2, l2=512 * KIB, l3=32 * 1024 * KIB, ghz=3.2)
# As `targets/` describes it.
ZEN4 = parse_target("llvm -mcpu=znver4 -num-cores=1").cpu
DEPTHWISE = ConvWorkload(1, 384, 14, 14, 384, (3, 3), (1, 1), (1, 1, 1, 1), groups=384)
PROJECT = ConvWorkload(1, 384, 14, 14, 64, (1, 1))
WIDE, NARROW = DepthwiseConfig(24, 24, reg_n=2, reg_m=2), DepthwiseConfig(8, 8, 7)
READS_WIDE = ConvConfig(24, 16, reg_n=2, reg_m=2, oh_bn=7, parallel_oc=True)
SCHEMES: dict[Workload, tuple[Candidate, ...]] = {
    DEPTHWISE: (Candidate(WIDE, 30e-6), Candidate(NARROW, 29e-6)),
    PROJECT: (Candidate(READS_WIDE, 100e-6),),
}


def graph(*readers: str) -> ConvGraph:
    """A depthwise layer, the 1x1 layer behind it, and whoever else reads the former.

    What a gate makes of it, the 1x1 layer reads.
    """
    nodes = (
        GraphNode("deep", NodeKind.CONV, "", DEPTHWISE.out_shape, DEPTHWISE),
        GraphNode("flat", NodeKind.CONV, "", PROJECT.out_shape, PROJECT),
        *(GraphNode(name, NodeKind.BOUNDARY, "", DEPTHWISE.out_shape) for name in readers),
    )
    return ConvGraph(
        nodes,
        (
            *(GraphEdge("deep", name, DEPTHWISE.out_shape, "y") for name in ("flat", *readers)),
            *(GraphEdge(name, "flat", (1, 384, 1, 1), "s") for name in readers if name == "gate"),
        ),
    )


def test_a_group_is_offered_with_the_schemes_that_fit_each_other() -> None:
    (node,) = groups_of(graph(), SCHEMES, ZEN3)
    found = best_block((Member(DEPTHWISE, WIDE), Member(PROJECT, READS_WIDE)), ZEN3)
    assert found is not None
    block = found.block
    (offered,) = node.candidates
    assert node.members == ("deep", "flat")
    assert (offered.configs, offered.rows) == ((WIDE, READS_WIDE), block.bands.rows)
    share = 1 - MARGIN - predict_seconds(block, ZEN3) / apart_seconds(block, ZEN3)
    assert offered.gain == pytest.approx(share * 130e-6)


def test_a_layer_that_something_else_reads_too_is_copied_out_at_a_price() -> None:
    """Here more than the group gains."""
    members = (Member(DEPTHWISE, WIDE), Member(PROJECT, READS_WIDE))
    found = best_block(members, ZEN3)
    assert found is not None
    alone = found.block
    tapped = replace(alone, taps=(0,))
    copied = 2 * DEPTHWISE.out_bytes / ZEN3.l3_bytes_per_cycle / (ZEN3.ghz * 1e9) / ZEN3.cores
    assert predict_seconds(tapped, ZEN3) - predict_seconds(alone, ZEN3) >= copied
    assert groups_of(graph(), SCHEMES, ZEN3)
    assert groups_of(graph("pool"), SCHEMES, ZEN3) == ()


def test_no_group_where_a_gate_stands_between_or_where_it_does_not_gain() -> None:
    assert groups_of(graph("gate"), SCHEMES, ZEN3) == ()
    assert groups_of(graph(), SCHEMES, replace(ZEN3, l2=16 * KIB)) == ()


def test_schemes_far_slower_than_the_best_are_no_members() -> None:
    slow = {**SCHEMES, DEPTHWISE: (Candidate(WIDE, 60e-6), Candidate(NARROW, 29e-6))}
    assert groups_of(graph(), slow, ZEN3) == ()


def test_only_a_plan_that_says_nothing_of_groups_gets_the_models() -> None:
    silent = Plan(graph().hash, {"deep": WIDE, "flat": READS_WIDE})
    (found,) = groups_of(graph(), SCHEMES, ZEN3)
    expected = (LayerGroup(("deep", "flat"), found.candidates[0].rows),)
    assert with_groups(silent, graph(), ZEN3).groups == expected
    apart = replace(silent, groups=())
    assert with_groups(apart, graph(), ZEN3) is apart
    other = replace(silent, configs={"deep": NARROW, "flat": READS_WIDE})
    assert with_groups(other, graph(), ZEN3).groups == ()


def test_a_1x1_depthwise_layer_takes_no_projections_place() -> None:
    """deep -> scale -> flat, where scale is a 1x1 depthwise layer: it and flat are a group."""
    scale = replace(DEPTHWISE, kernel=(1, 1), padding=(0, 0, 0, 0))
    nodes = (
        GraphNode("deep", NodeKind.CONV, "", DEPTHWISE.out_shape, DEPTHWISE),
        GraphNode("scale", NodeKind.CONV, "", scale.out_shape, scale),
        GraphNode("flat", NodeKind.CONV, "", PROJECT.out_shape, PROJECT),
    )
    edges = (
        GraphEdge("deep", "scale", DEPTHWISE.out_shape, "y"),
        GraphEdge("scale", "flat", scale.out_shape, "z"),
    )
    schemes = {**SCHEMES, scale: (Candidate(WIDE, 30e-6),)}
    (found,) = groups_of(ConvGraph(nodes, edges), schemes, ZEN3)
    assert found.members == ("scale", "flat")


EXPAND = ConvWorkload(1, 24, 56, 56, 144, (1, 1))
DEEP = ConvWorkload(1, 144, 56, 56, 144, (3, 3), (2, 2), (1, 1, 1, 1), groups=144)
NARROW = ConvWorkload(1, 144, 28, 28, 32, (1, 1))
EXPANDS = ConvConfig(24, 24, reg_n=4, oh_bn=28)
DEEPENS = DepthwiseConfig(24, 24, reg_n=7, reg_c=8)
NARROWS = ConvConfig(24, 16, reg_n=4, oh_bn=14)
ONE = ZEN3.with_cores(1)
BLOCK: dict[Workload, tuple[Candidate, ...]] = {
    EXPAND: (Candidate(EXPANDS, 254e-6), Candidate(ConvConfig(8, 16, reg_n=4), 260e-6)),
    DEEP: (Candidate(DEEPENS, 65e-6),),
    NARROW: (Candidate(NARROWS, 75e-6),),
}


def block(*edges: str) -> ConvGraph:
    """An expansion, a depthwise layer, a projection, a gate or a pool; the edges between them."""
    workloads = {"e": EXPAND, "d": DEEP, "p": NARROW}
    nodes = [GraphNode(k, NodeKind.CONV, "", w.out_shape, w) for k, w in workloads.items()]
    nodes.append(GraphNode("g", NodeKind.BOUNDARY, "", DEEP.out_shape))
    shapes = {"g": (1, 144, 1, 1), **{k: w.out_shape for k, w in workloads.items()}}
    return ConvGraph(tuple(nodes), tuple(GraphEdge(a, b, shapes[a], a) for a, b in edges))


def test_an_expansion_is_offered_with_one_layer_behind_it_and_with_both() -> None:
    (found,) = groups_of(block("ed", "dp"), BLOCK, ONE)
    assert found.members == ("e", "d", "p")
    offered = {candidate.members_of(found.members) for candidate in found.candidates}
    assert offered == {("e", "d"), ("d", "p"), ("e", "d", "p")}
    # The other scheme of the expansion writes blocks that the depthwise layer does not read.
    assert {candidate.configs[0] for candidate in found.candidates} == {EXPANDS, None}


def test_a_gate_ends_the_group_behind_the_depthwise_layer() -> None:
    (found,) = groups_of(block("ed", "dp", "dg", "gp"), BLOCK, ONE)
    assert found.members == ("e", "d")
    (alone,) = groups_of(block("ed", "dp", "eg", "gd"), BLOCK, ONE)
    assert alone.members == ("d", "p")


@pytest.mark.parametrize(("tap", "others"), [("e", {("d", "p")}), ("d", {("e", "d")})])
def test_a_pool_that_reads_a_layer_too_makes_groups_with_an_output(
    tap: str, others: set[tuple[str, ...]]
) -> None:
    """A part of the chain that hands the layer to nobody has no tap, and gains what it did."""
    (plain,) = groups_of(block("ed", "dp"), BLOCK, ONE)
    (found,) = groups_of(block("ed", "dp", f"{tap}g"), BLOCK, ONE)
    assert found.members == ("e", "d", "p")
    gains = [
        {candidate.members_of(node.members): candidate.gain for candidate in node.candidates}
        for node in (plain, found)
    ]
    for part, gain in gains[1].items():
        assert gain == gains[0][part] if part in others else gain < gains[0][part]
    assert others <= set(gains[1])


def test_a_silent_plan_gets_the_group_that_gains_most() -> None:
    graph_ = block("ed", "dp")
    silent = Plan(graph_.hash, {"e": EXPANDS, "d": DEEPENS, "p": NARROWS})
    members = (Member(EXPAND, EXPANDS), Member(DEEP, DEEPENS), Member(NARROW, NARROWS))
    found = best_block(members, ONE)
    assert found is not None
    best = found.block
    expected = (LayerGroup(("e", "d", "p"), *best.bands),)
    assert with_groups(silent, graph_, ONE).groups == expected


def test_a_gain_within_the_models_error_is_for_the_tuner(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Plan(graph().hash, {"deep": WIDE, "flat": READS_WIDE})
    (sure,) = with_groups(silent, graph(), ZEN3).groups or ()
    monkeypatch.setattr(PricedBlock, "saved_share", -0.001)
    plan = with_groups(silent, graph(), ZEN3)
    assert plan.groups == ()
    assert with_doubtful_groups(plan, graph(), ZEN3).groups == (sure,)


def test_no_group_is_predicted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the layout problem nor for a plan."""
    asked: list[FusedBlock] = []

    def predicted(block: FusedBlock, cpu: Cpu) -> float:
        asked.append(block)
        return predict_seconds(block, cpu)

    monkeypatch.setattr(cost, "predict_seconds", predicted)
    silent = Plan(graph().hash, {"deep": WIDE, "flat": READS_WIDE})
    for look in (
        lambda: with_groups(silent, graph(), ZEN3).groups,
        lambda: groups_of(graph(), SCHEMES, ZEN3),
    ):
        asked.clear()
        assert look()
        assert len(asked) == len(set(asked)) > 0


def test_the_tuner_tries_what_is_predicted_to_gain_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A margin of all layers' time would speak for the group of fewest layers."""
    graph_ = block("ed", "dp")
    silent = Plan(graph_.hash, {"e": EXPANDS, "d": DEEPENS, "p": NARROWS})
    (best,) = with_groups(silent, graph_, ONE).groups or ()
    assert len(best.members) == 3
    monkeypatch.setattr(PricedBlock, "saved_share", -0.5)
    apart = replace(silent, groups=())
    assert with_doubtful_groups(apart, graph_, ONE).groups == (best,)


def dense_pair(channels: int, size: int) -> tuple[ConvGraph, Plan]:
    """Two 3x3 layers, each with twice the channels of its input, and a plan of Winograd."""
    first = ConvWorkload(1, channels, size, size, 2 * channels, (3, 3), padding=(1, 1, 1, 1))
    last = replace(first, in_channels=2 * channels, out_channels=4 * channels)
    config = WinogradConfig(channels, 32, tile=4, reg_n=13)
    configs = {"a": config, "b": replace(config, ic_bn=32)}
    layers = {"a": first, "b": last}
    nodes = [GraphNode(id, NodeKind.CONV, "", w.out_shape, w) for id, w in layers.items()]
    pair = ConvGraph(tuple(nodes), (GraphEdge("a", "b", first.out_shape, "y"),))
    return pair, Plan(pair.hash, configs, groups=())


def test_the_tuner_tries_stacks_at_which_the_search_does_not_look() -> None:
    """Alone in a loop this one takes 0.92 of its layers' time; its maps are 2 % of it."""
    pair, plan = dense_pair(16, 208)
    schemes = {n.workload: (Candidate(plan.configs[n.id], 1e-3),) for n in pair.convs}
    assert groups_of(pair, schemes, ZEN4) == ()
    assert with_groups(replace(plan, groups=None), pair, ZEN4).groups == ()
    tried = with_doubtful_groups(plan, pair, ZEN4)
    assert [group.members for group in tried.groups or ()] == [("a", "b")]
    assert not with_doubtful_groups(plan, pair, replace(ZEN4, l2=512 * KIB)).groups
    (offered,) = groups_of(pair, schemes, ZEN4, tried)
    (candidate,) = offered.candidates
    assert LayerGroup(offered.members, candidate.rows, candidate.run) in (tried.groups or ())
    assert 0 < candidate.gain < 0.05 * 2e-3  # of what two layers take; the margin is out
    other = Candidate(WinogradConfig(16, 32, tile=6, reg_n=13), 1e-3)
    forgotten = {**schemes, pair.convs[0].workload: (other,)}
    assert groups_of(pair, forgotten, ZEN4, tried) == ()


def test_a_plans_group_that_is_offered_anyway_is_offered_once() -> None:
    (found,) = groups_of(graph(), SCHEMES, ZEN3)
    silent = Plan(graph().hash, {"deep": WIDE, "flat": READS_WIDE})
    assert groups_of(graph(), SCHEMES, ZEN3, with_groups(silent, graph(), ZEN3)) == (found,)
