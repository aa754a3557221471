"""What a session may measure: configs that some stand-in can have."""

from __future__ import annotations

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.rounds.stand_ins import StandIns
from tvm_neocpu.tuning.seating import timeable

SHAPE = (1, 64, 56, 56)


def residual(workload) -> ConvGraph:
    """add -> conv -> sum, and add -> sum: the convolution's ends are tied to each other."""
    joins = [
        GraphNode(name, NodeKind.JOIN, name, SHAPE, join_channels=(64,)) for name in ("add", "sum")
    ]
    conv = GraphNode("conv", NodeKind.CONV, "conv", SHAPE, workload)
    edges = [("add", "conv"), ("conv", "sum"), ("add", "sum")]
    return ConvGraph((joins[0], conv, joins[1]), tuple(GraphEdge(a, b, SHAPE, a) for a, b in edges))


def test_a_tuner_is_not_given_what_no_stand_in_can_have(make_task) -> None:
    task = make_task("a")
    stand_ins = StandIns(residual(task.workload))
    found = timeable(task, stand_ins)
    assert 0 < len(found.space) < len(task.space)
    assert all(len(set(layouts_of(config))) == 1 for config in found.space)
    for config in found.space:
        plan, granted = stand_ins.plan(
            Plan("g", {"conv": config}, {}), {task.workload: [config]}, {task.workload: []}
        )
        assert granted == {task.workload}
        assert plan.configs["conv"] == config


def test_a_free_layer_keeps_its_task(make_task) -> None:
    task = make_task("a")
    graph = ConvGraph((GraphNode("a", NodeKind.CONV, "a", SHAPE, task.workload),), ())
    assert timeable(task, StandIns(graph)) is task
