"""Several logs as one."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning
from tvm_neocpu.tuning.database.upkeep import merge
from tvm_neocpu.tuning.database.upkeep.merge import merge_logs

A, B, C = ConvConfig(8, 16, 7), ConvConfig(8, 16, 14), ConvConfig(16, 16, 14)


def log_of(path, *records) -> TuningLog:
    log = TuningLog(path)
    for record in records:
        log.append(record)
    return log


@pytest.mark.parametrize("at_once", [1, 1000])
def test_order_is_kept_and_duplicates_are_not(tmp_path, make_record, at_once, monkeypatch) -> None:
    monkeypatch.setattr(merge, "_AT_ONCE", at_once)
    a, b, c = map(make_record, (A, B, C))
    out = log_of(tmp_path / "out.log", b)
    paths = [log_of(tmp_path / "1.log", c, b, c).path, log_of(tmp_path / "2.log", a, c).path]
    found = merge_logs(out, paths)
    assert [record.config for record in out.load().records] == [B, C, A]
    assert (found.added, found.duplicates, found.skipped) == (2, 3, ())
    assert merge_logs(out, [*paths, out.path]).added == 0


def test_plans_come_along_and_bad_lines_do_not(tmp_path, make_record, conv) -> None:
    graph = ConvGraph((GraphNode("a", NodeKind.CONV, "conv", (1, 64, 56, 56), conv),), ())
    plan = Plan(graph.hash, {"a": A})
    log = log_of(tmp_path / "1.log", make_record(A))
    log.append_plan(plan, graph, "testcpu", 2)
    with log.path.open("ab") as file:
        file.write(b"# a comment\n\xff\n" + b"x" * 300_000 + b"\n")
        file.write(b'{"input": ["llvm", "conv2d_of_a_plug_in", [], {}], "version": 0.2}\n{"inp')
    out = TuningLog(tmp_path / "out.log")
    found = merge_logs(out, [log.path])
    assert [where.rpartition(":")[2] for where, _ in found.skipped] == ["5", "6", "8"]
    assert found.added == 4 and b"plug_in" in out.path.read_bytes()
    with pytest.warns(TuningLogWarning, match=r"out\.log:4"):
        contents = out.load()
    assert len(contents.records) == 1 and list(contents.plans.values()) == [plan]


def test_a_log_that_is_missing_is_an_error(tmp_path) -> None:
    with pytest.raises(LogError, match=r"nowhere\.log"):
        merge_logs(TuningLog(tmp_path / "out.log"), [tmp_path / "nowhere.log"])
