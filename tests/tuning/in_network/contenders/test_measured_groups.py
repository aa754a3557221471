"""A group stays where its function took less time in the network than its layers."""

from __future__ import annotations

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.in_network.contenders.measured_groups import TimedPlan, faster_groups

SHAPE = (1, 16, 8, 8)
DEEP, FLAT = DepthwiseConfig(16, 16, 4), ConvConfig(16, 16, 4)
OTHER_FLAT = ConvConfig(16, 8, 4)


def depthwise(size: int) -> ConvWorkload:
    return ConvWorkload(1, 16, 8, 8, 16, (size, size), padding=(size // 2,) * 4, groups=16)


POINT = ConvWorkload(1, 16, 8, 8, 16, (1, 1))
SMALL, LARGE = depthwise(3), depthwise(5)
GRAPH = ConvGraph(
    tuple(
        GraphNode(name, NodeKind.CONV, name, SHAPE, workload)
        for name, workload in (("s", SMALL), ("p", POINT), ("l", LARGE), ("q", POINT))
    ),
    (),
)
FIRST, SECOND = LayerGroup(("s", "p"), 2), LayerGroup(("l", "q"), 4)
FIRST_KEY = ((SMALL, DEEP), (POINT, FLAT))


def plan(q: ConvConfig) -> Plan:
    configs = {"s": DEEP, "p": FLAT, "l": DEEP, "q": q}
    return Plan(GRAPH.hash, configs, groups=(FIRST, SECOND))


def timed(of: Plan, run: dict, drift: float = 1.0) -> TimedPlan:
    """Three runs alike, beside an incumbent that took 100 times the drift of the machine."""
    ours = [{key: seconds * drift for key, seconds in run.items()}] * 3
    return TimedPlan(of, ours, [{None: 100.0 * drift}] * 3)


def test_each_group_is_compared_with_its_own_layers() -> None:
    of = plan(OTHER_FLAT)
    second = ((LARGE, DEEP), (POINT, OTHER_FLAT))
    apart = {(SMALL, DEEP): 3.0, (POINT, FLAT): 5.0, (LARGE, DEEP): 4.0, (POINT, OTHER_FLAT): 5.0}
    for drift in (0.5, 2.0):
        beside = timed(of, apart, drift)
        assert faster_groups(timed(of, {FIRST_KEY: 7.0, second: 9.5}), beside, GRAPH) == (FIRST,)
        assert faster_groups(timed(of, {FIRST_KEY: 8.5, second: 8.0}), beside, GRAPH) == (SECOND,)


def test_groups_that_share_a_layers_function_stay_or_go_together() -> None:
    of = plan(FLAT)
    second = ((LARGE, DEEP), (POINT, FLAT))
    apart = timed(of, {(SMALL, DEEP): 3.0, (POINT, FLAT): 10.0, (LARGE, DEEP): 4.0})
    assert faster_groups(timed(of, {FIRST_KEY: 9.0, second: 7.0}), apart, GRAPH) == (FIRST, SECOND)
    assert faster_groups(timed(of, {FIRST_KEY: 9.0, second: 9.0}), apart, GRAPH) == ()


def test_a_group_that_lowering_left_apart_gains_nothing() -> None:
    of, layers = plan(OTHER_FLAT), {(SMALL, DEEP): 3.0, (POINT, FLAT): 5.0, (LARGE, DEEP): 4.0}
    assert faster_groups(timed(of, layers), timed(of, layers), GRAPH) == ()
