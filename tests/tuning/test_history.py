"""Which logs a build sees."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import replace

import pytest

from tvm_neocpu.core.config import ConvConfig
from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.cpu import AVX2, Cpu
from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.tuning import history
from tvm_neocpu.tuning.history import apply_history_best, current_history, shipped_logs
from tvm_neocpu.tuning.log import TuningLog, TuningLogWarning

CPU = Cpu("testcpu", AVX2, 2)
A, B = ConvConfig(8, 16, 7), ConvConfig(16, 16, 14)


@pytest.fixture(autouse=True)
def no_shipped_logs(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(history, "_PACKAGE", tmp_path / "nowhere")
    monkeypatch.delenv(history.LOGS_VARIABLE, raising=False)


@pytest.fixture
def graph(conv):
    return ConvGraph((GraphNode("a", NodeKind.CONV, "conv", (1, 64, 56, 56), conv),), ())


@pytest.fixture
def plan(graph):
    return Plan(graph.hash, {"a": A})


def log_of(path, *records):
    log = TuningLog(path)
    for record in records:
        log.append(record)
    return path


def test_logs_hold_inside_and_nest(tmp_path, make_record, conv) -> None:
    outer = log_of(tmp_path / "outer.log", make_record(A, 2e-3))
    inner = log_of(tmp_path / "inner.log", make_record(B, 1e-3))

    def best():
        record = current_history(CPU).best_records.best(conv)
        return record and record.config

    assert best() is None
    with apply_history_best(outer):
        assert best() == A
        with apply_history_best([inner]):
            assert best() == B
        assert best() == A
    assert best() is None


def test_an_inner_log_replaces_measurements_of_an_outer_one(tmp_path, make_record, conv) -> None:
    outer = log_of(tmp_path / "outer.log", make_record(A, 1e-3))
    inner = log_of(tmp_path / "inner.log", make_record(A, 2e-3))
    with apply_history_best(outer), apply_history_best(inner):
        assert current_history(CPU).best_records.best(conv).seconds == 2e-3


def test_other_threads_do_not_see_it(tmp_path, make_record, conv) -> None:
    seen = []
    with apply_history_best(log_of(tmp_path / "x.log", make_record(A))):
        thread = threading.Thread(target=lambda: seen.append(current_history(CPU).logs))
        thread.start()
        thread.join()
    assert seen == [()]


def test_a_missing_log_is_an_error_at_once(tmp_path) -> None:
    with pytest.raises(LogError), apply_history_best(tmp_path / "nowhere.log"):
        pass
    assert current_history(CPU).logs == ()


def test_another_cpus_log_is_ignored_with_one_warning(tmp_path, make_record, conv) -> None:
    records = [make_record(c, cpu="skylake-avx512") for c in (A, B)] + [make_record(A, cpu="")]
    path = log_of(tmp_path / "x.log", *records)
    with apply_history_best(path), pytest.warns(TuningLogWarning) as caught:
        known = current_history(CPU)
        assert known.schemes([conv]) == {}
        assert known.best_records.best(conv) is None
    (warning,) = caught
    assert "x.log was measured on an unnamed CPU (no -mcpu), skylake-avx512" in str(warning.message)
    assert str(warning.message).endswith("this target is testcpu: ignored")


def test_schemes_are_for_known_workloads_only(tmp_path, make_record, conv) -> None:
    other = replace(conv, out_channels=128)
    with apply_history_best(log_of(tmp_path / "x.log", make_record(A), make_record(B, 2e-3))):
        schemes = current_history(CPU).schemes([conv, other])
    assert [record.config for record in schemes[conv]] == [A, B]
    assert other not in schemes


def test_a_plan_is_for_its_graph_cpu_and_thread_count(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append_plan(plan, graph, "testcpu", 2)
    with apply_history_best(log.path):
        assert current_history(CPU).plan(graph) == plan
        assert current_history(CPU.with_cores(4)).plan(graph) is None
        assert current_history(replace(CPU, name="other")).plan(graph) is None
        node = replace(graph.nodes[0], id="b")
        assert current_history(CPU).plan(ConvGraph((node,), ())) is None


def test_a_plan_that_lacks_a_node_is_no_plan(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append_plan(replace(plan, configs={}), graph, "testcpu", 2)
    with apply_history_best(log.path):
        assert current_history(CPU).plan(graph) is None


def test_newer_records_overrule_an_outer_logs_plan(tmp_path, graph, plan, make_record) -> None:
    outer = TuningLog(tmp_path / "outer.log")
    outer.append_plan(plan, graph, "testcpu", 2)
    related = log_of(tmp_path / "related.log", make_record(B))
    other = make_record(B, workload=replace(graph.convs[0].workload, out_channels=8))
    unrelated = log_of(tmp_path / "unrelated.log", other)
    with apply_history_best(outer.path):
        with apply_history_best(related):
            assert current_history(CPU).plan(graph) is None
        with apply_history_best(unrelated):
            assert current_history(CPU).plan(graph) == plan


def test_shipped_logs_are_found_by_the_cpus_name(tmp_path, monkeypatch, make_record, conv) -> None:
    monkeypatch.setattr(history, "_PACKAGE", tmp_path / "src" / "tvm_neocpu")
    wheel = tmp_path / "src" / "tvm_neocpu" / "_tuning_logs" / "testcpu" / "net.log"
    checkout = tmp_path / "src" / "tuning_logs" / "testcpu" / "net.log"
    extra = tmp_path / "extra" / "testcpu" / "net.log"
    other = tmp_path / "extra" / "other" / "net.log"
    for number, path in enumerate((wheel, checkout, extra, other), 1):
        log_of(path, make_record(A, 1e-3 * number))
    variable = os.pathsep.join(["", str(tmp_path / "extra"), str(tmp_path / "missing")])
    monkeypatch.setenv(history.LOGS_VARIABLE, variable)
    assert shipped_logs("testcpu") == (wheel, checkout, extra)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_history(CPU).best_records.best(conv).seconds == 3e-3


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc"])
def test_a_cpus_name_is_no_path(name, tmp_path, monkeypatch) -> None:
    (tmp_path / "x.log").write_text("")
    monkeypatch.setenv(history.LOGS_VARIABLE, str(tmp_path / "folder"))
    assert shipped_logs(name) == ()


def test_a_shipped_log_that_changes_is_read_again(tmp_path, monkeypatch, make_record, conv) -> None:
    monkeypatch.setenv(history.LOGS_VARIABLE, str(tmp_path))
    path = log_of(tmp_path / "testcpu" / "x.log", make_record(A, 2e-3))
    assert current_history(CPU).best_records.best(conv).config == A
    log_of(path, make_record(B, 1e-3))
    assert current_history(CPU).best_records.best(conv).config == B
