"""Plans: what lowering needs of them, and whether they are the best there is."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.layer_group import Bands, LayerGroup
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload

CONV = ConvWorkload(1, 16, 8, 8, 16, (3, 3))
DENSE = DenseWorkload(1, 16, 10)
GRAPH = ConvGraph(
    (
        GraphNode("a", NodeKind.CONV, "", (1, 16, 6, 6), CONV),
        GraphNode("b", NodeKind.CONV, "", (1, 16, 6, 6), CONV),
        GraphNode("sum", NodeKind.JOIN, "add", (1, 16, 6, 6), join_channels=(16,)),
        GraphNode("head", NodeKind.CONV, "", (1, 10, 1, 1), DENSE),
    ),
    (),
)


def test_groups_are_known_by_what_their_members_compute() -> None:
    group = LayerGroup(("a", "b"), 7)
    plan = Plan(GRAPH.hash, {"a": ConvConfig(8, 8, 4), "b": ConvConfig(8, 16, 4)}, groups=(group,))
    members = tuple((GRAPH.by_id[id].workload, plan.configs[id]) for id in group.members)
    assert plan.group_bands(GRAPH) == {members: Bands(7)}
    assert replace(plan, groups=None).group_bands(GRAPH) == {}
    assert replace(plan, groups=(LayerGroup(("a", "gone"), 7),)).group_bands(GRAPH) == {}


def test_configs_by_workload_and_layouts() -> None:
    plain, blocked, dense = ConvConfig(0, 16, 4), ConvConfig(8, 16, 6), DenseConfig(16)
    plan = Plan(GRAPH.hash, {"a": plain, "b": blocked, "head": dense})
    assert plan.by_layout(GRAPH) == {
        (CONV, NCHW, Layout(16)): plain,
        (CONV, Layout(8), Layout(16)): blocked,
        (DENSE, NCHW, NCHW): dense,
    }


def test_entries_for_nodes_that_the_graph_lacks_are_ignored() -> None:
    assert Plan("other", {"gone": ConvConfig(8, 8, 4)}).by_layout(GRAPH) == {}


def test_optimal_is_a_cost_that_meets_its_bound() -> None:
    assert Plan("", {}, seconds=0.0, lower_bound=0.0).optimal
    assert Plan("", {}, seconds=1.0 + 1e-9, lower_bound=1.0).optimal
    assert not Plan("", {}, seconds=1.0, lower_bound=0.99).optimal
