"""A plan is read from the log complete, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tvm_neocpu.core.errors import PlanError
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphEdge, GraphNode, NodeKind
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import HELD, Plan
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning, load_log

SHAPE = (1, 64, 56, 56)


@pytest.fixture
def graph(conv):
    nodes = (
        GraphNode("a", NodeKind.CONV, "conv a", SHAPE, conv),
        GraphNode("b", NodeKind.CONV, "conv b", SHAPE, conv),
        GraphNode("c", NodeKind.JOIN, "add", SHAPE, join_channels=(64,)),
    )
    edges = tuple(
        GraphEdge(src, dst, SHAPE, src) for src, dst in (("a", "b"), ("a", "c"), ("b", "c"))
    )
    return ConvGraph(nodes, edges)


@pytest.fixture
def plan(graph):
    configs = {"a": ConvConfig(16, 32, 14), "b": WinogradConfig(32, 32, 4, 14)}
    return Plan(graph.hash, configs, {"c": Layout(32)}, 0.1 + 0.2, 0.25, "dp")


def test_a_plan_reads_as_it_was_written(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append_plan(plan, graph, "znver4", 2)
    assert log.load().plans == {PlanKey(graph.hash, "znver4", 2): plan}
    assert log.load().records == ()


def test_what_a_session_holds_hides_no_proven_plan(tmp_path, graph, plan) -> None:
    """Logs are merged in any order, and a session may have waited while another proved a plan."""
    held = replace(plan, joins={"c": Layout(16)}, method=HELD)
    log = TuningLog(tmp_path / "x.log")
    key = PlanKey(graph.hash, "znver4", 2)
    for each, counts in ((held, held), (plan, plan), (held, plan)):
        log.append_plan(each, graph, "znver4", 2)
        assert log.load().plans[key] == counts
        assert IndexedLog(log.path).plan(key) == counts


def test_groups_have_lines_and_an_empty_tuple_is_a_decision(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    grouped = replace(plan, groups=(LayerGroup(("a", "b"), 14),))
    ring = replace(plan, groups=(LayerGroup(("a", "b"), 2, 7),))
    with_pool = replace(plan, groups=(LayerGroup(("a",), 56),))
    for each in (grouped, ring, with_pool, replace(plan, groups=()), plan):
        log.append_plan(each, graph, "znver4", 2)
        assert list(log.load().plans.values()) == [each]
    with pytest.raises(PlanError, match="without a config"):
        log.append_plan(replace(plan, groups=(LayerGroup(("a", "x"), 1),)), graph, "znver4", 2)


@pytest.mark.parametrize(
    "broken",
    [
        {"group": "ab"},
        {"group": ["a"]},
        {"group": ["a", 1]},
        {"rows": 0},
        {"rows": "7"},
        {"run": 0},
    ],
)
def test_a_malformed_group_is_named_and_its_plan_ignored(tmp_path, graph, plan, broken) -> None:
    path = tmp_path / "x.log"
    grouped = replace(plan, groups=(LayerGroup(("a", "b"), 14),))
    TuningLog(path).append_plan(grouped, graph, "znver4", 2)
    *lines, last = path.read_text().splitlines()
    row = json.loads(last)
    row["neocpu"]["plan"] |= broken
    path.write_text("\n".join([*lines, json.dumps(row)]) + "\n")
    with pytest.warns(TuningLogWarning, match="without its layers or its rows"):
        assert load_log(path).plans == {}


def test_every_node_has_a_line_that_an_old_tool_skips(tmp_path, graph, plan) -> None:
    path = tmp_path / "x.log"
    TuningLog(path).append_plan(plan, graph, "znver4", 2)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["neocpu"]["plan"].get("node") for row in rows] == [None, "a", "b", "c"]
    assert rows[1]["input"][1] == "conv2d_NCHWc.x86"
    for row in rows:
        assert row["result"][0] == [1e9]
        assert row["result"][1] != 0
        assert len(row["input"]) == 4


def test_the_last_plan_of_a_key_wins(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    better = replace(plan, seconds=0.2)
    for each in (plan, better):
        log.append_plan(each, graph, "znver4", 2)
    assert list(log.load().plans.values()) == [better]
    log.append_plan(plan, graph, "znver4", 2)
    assert list(log.load().plans.values()) == [plan]


def test_plans_of_other_cpus_and_thread_counts_stay_apart(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append_plan(plan, graph, "znver4", 2)
    log.append_plan(plan, graph, "znver4", 8)
    log.append_plan(plan, graph, "cortex-a72", 2)
    assert len(log.load().plans) == 3


def test_an_incomplete_plan_is_ignored_for_the_one_before(tmp_path, graph, plan) -> None:
    path = tmp_path / "x.log"
    log = TuningLog(path)
    log.append_plan(plan, graph, "znver4", 2)
    log.append_plan(replace(plan, seconds=0.1), graph, "znver4", 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.warns(TuningLogWarning, match=r"x\.log:5: .*incomplete \(2 of 3 lines\)"):
        contents = log.load()
    assert list(contents.plans.values()) == [plan]


def test_a_plan_without_its_head_is_ignored(tmp_path, graph, plan) -> None:
    path = tmp_path / "x.log"
    TuningLog(path).append_plan(plan, graph, "znver4", 2)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.warns(TuningLogWarning, match="without its head"):
        assert not load_log(path).plans


def test_records_between_a_plans_lines_do_no_harm(tmp_path, graph, plan, make_record) -> None:
    path = tmp_path / "x.log"
    log = TuningLog(path)
    log.append_plan(plan, graph, "znver4", 2)
    log.append(make_record(ConvConfig(8, 8, 7)))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[2:4], lines[4], *lines[:2]]))
    contents = log.load()
    assert list(contents.plans.values()) == [plan]
    assert len(contents.records) == 1


def test_another_graphs_plan_is_refused(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    with pytest.raises(PlanError):
        log.append_plan(replace(plan, graph="0" * 16), graph, "znver4", 2)
    with pytest.raises(PlanError):
        log.append_plan(replace(plan, joins={"z": Layout(16)}), graph, "znver4", 2)
    assert not log.path.exists()


@pytest.mark.parametrize(
    "tag",
    [
        1,
        {"graph": "g"},
        {"graph": 3, "id": "x"},
        {"graph": "g", "id": "x"},
        {"graph": "g", "id": "x", "node": "c", "layout": "NHWC"},
        {"graph": "g", "id": "x", "lines": 3},
        {"graph": "g", "id": "x", "lines": "3", "seconds": 1, "lower_bound": 1},
    ],
)
def test_a_plan_line_that_makes_no_sense_is_skipped(tmp_path, graph, plan, tag) -> None:
    path = tmp_path / "x.log"
    TuningLog(path).append_plan(plan, graph, "znver4", 2)
    row = json.loads(path.read_text().splitlines()[0])
    row["neocpu"]["plan"] = tag
    with path.open("a") as log:
        log.write(json.dumps(row) + "\n")
    with pytest.warns(TuningLogWarning, match=r"x\.log:5"):
        assert list(load_log(path).plans.values()) == [plan]
