"""Which plan is explained, where it comes from, and which of its times were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.choose_plan import choose_plan, search_plan
from tvm_neocpu.contrib.explain.explained_network import explain_network
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.messages.fallback import Coverage
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey
from tvm_neocpu.tuning.database.log import LogContents, TuningLogWarning

CPU = Cpu("testcpu", AVX512, 2)
SHAPE = (1, 32, 8, 8)
SQUARE = ConvWorkload(1, 32, 8, 8, 32, (3, 3), padding=(1, 1, 1, 1))
POINT = ConvWorkload(1, 32, 8, 8, 32, (1, 1))
NODES = (
    GraphNode("data", NodeKind.BOUNDARY, "data", SHAPE),
    GraphNode("square", NodeKind.CONV, str(SQUARE), SHAPE, SQUARE),
    GraphNode("point", NodeKind.CONV, str(POINT), SHAPE, POINT),
)
GRAPH = ConvGraph(
    NODES, (GraphEdge("data", "square", SHAPE, "data"), GraphEdge("square", "point", SHAPE, "s"))
)


@pytest.fixture
def plan() -> Plan:
    return search_plan(GRAPH, CPU, History(CPU.name, CPU.cores))


COVERAGE = Coverage(sum(node.workload.flops for node in GRAPH.convs))


def history(plan: Plan, *records: Record) -> History:
    key = PlanKey(GRAPH.hash, CPU.name, CPU.cores)
    return History(CPU.name, CPU.cores, (LogContents(records, {key: plan}),))


def record(workload: ConvWorkload, config: Config, seconds: float) -> Record:
    return Record(workload, config, (seconds,), CPU.name, CPU.cores)


def test_without_a_log_the_search_is_explained(plan: Plan) -> None:
    found = explain_network("net", GRAPH, CPU, History(CPU.name, CPU.cores), COVERAGE)
    assert (found.name, found.cpu, found.threads) == ("net", "testcpu", 2)
    assert found.origin == f"a search over what is known ({plan.method})"
    assert found.explanation.seconds == pytest.approx(plan.seconds)
    assert found.explanation.measured == frozenset()


def test_a_logs_plan_is_explained(plan: Plan) -> None:
    found = explain_network("net", GRAPH, CPU, history(replace(plan, method="by hand")), COVERAGE)
    assert found.origin == "the log's plan (by hand)"
    chosen = {row.node.id: row.option.config for row in found.explanation.nodes}
    assert {id: chosen[id] for id in plan.configs} == plan.configs


def test_records_newer_than_the_plan_do_not_change_what_is_explained(plan: Plan) -> None:
    """A build takes the log's plan too."""
    config = plan.configs["square"]
    faster = replace(config, unroll_ker=False)
    records = (record(SQUARE, config, 2e-5), record(SQUARE, faster, 1e-9))
    known = history(plan, *records)
    found = explain_network("net", GRAPH, CPU, known, COVERAGE)
    assert found.origin == f"the log's plan ({plan.method})"
    (square,) = (row for row in found.explanation.nodes if row.node.id == "square")
    assert (square.option.config, square.option.seconds) == (config, 2e-5)
    assert choose_plan(GRAPH, CPU, known).configs["square"] == config


def test_a_plan_that_a_build_refuses_is_not_explained(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiled = replace(plan, configs={**plan.configs, "square": WinogradConfig(16, 16, 4, 2)})
    monkeypatch.setenv(TILE_LIMIT, "0")
    with pytest.warns(TuningLogWarning, match="the log's plan is not used"):
        found = explain_network("net", GRAPH, CPU, history(tiled), COVERAGE)
    assert found.origin.startswith("a search over what is known")


def test_only_records_are_measured(plan: Plan) -> None:
    config = plan.configs["point"]
    found = explain_network("net", GRAPH, CPU, history(plan, record(POINT, config, 1e-6)), COVERAGE)
    measured = {
        row.node.id
        for row in found.explanation.nodes
        if found.explanation.is_measured(row.node, row.option)
    }
    assert measured == {"point"}
