"""Tuning tasks of a graph: one for each distinct workload, built by its template."""

from __future__ import annotations

import tvm

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.table import space_of
from tvm_neocpu.tuning.tasks import tasks_of

CPU = Cpu("testcpu", AVX512, 2)
SQUARE = ConvWorkload(1, 16, 8, 8, 16, (3, 3), padding=(1, 1, 1, 1))
POINT = ConvWorkload(1, 16, 8, 8, 16, (1, 1))
SHAPE = (1, 16, 8, 8)
GRAPH = ConvGraph(
    (
        GraphNode("data", NodeKind.BOUNDARY, "data", SHAPE),
        GraphNode("a", NodeKind.CONV, "a", SHAPE, SQUARE),
        GraphNode("b", NodeKind.CONV, "b", SHAPE, POINT),
        GraphNode("c", NodeKind.CONV, "c", SHAPE, SQUARE),
    ),
    (),
)


def test_equal_workloads_are_one_task() -> None:
    square, point = tasks_of(GRAPH, CPU)
    assert (square.workload, square.occurrences) == (SQUARE, 2)
    assert (point.workload, point.occurrences) == (POINT, 1)
    assert square.name == str(SQUARE)
    assert square.space == space_of(SQUARE, CPU)


def test_a_task_predicts_and_builds_its_configs() -> None:
    task = tasks_of(GRAPH, CPU)[1]
    config = task.space[0]
    assert task.predicted(config) == predict_seconds(POINT, config, CPU)
    assert isinstance(task.build(config), tvm.tirx.PrimFunc)
