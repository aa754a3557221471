"""Logs that are not used are named, once, and why."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from small_logs import CPU, A, B, log_of, plan_log

from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.record import Stamp
from tvm_neocpu.tuning.database.folders import log_folders
from tvm_neocpu.tuning.database.history import apply_history_best, current_history
from tvm_neocpu.tuning.database.log import TuningLogWarning

pytestmark = pytest.mark.usefixtures("no_shipped_logs")


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


@pytest.fixture
def changed(graph):
    """The graph with one more layer: the convolution of the old one keeps its identity."""
    head = GraphNode("b", NodeKind.CONV, "conv", (1, 64, 56, 56), graph.convs[0].workload)
    return ConvGraph((*graph.nodes, head), ())


@pytest.mark.parametrize("with_records", [True, False])
def test_a_stale_plan_is_refused_in_one_line(
    with_records, tmp_path, graph, changed, plan, make_record
) -> None:
    path = plan_log(tmp_path / "net.log", plan, graph)
    if with_records:
        log_of(path, make_record(B))
    with apply_history_best(path), pytest.warns(TuningLogWarning) as caught:
        known = current_history(CPU)
        assert known.plan(changed) is None
        assert bool(known.schemes(changed.workloads)) is with_records
    (warning,) = caught
    text = f"the log's plan is for another network (hash {graph.hash}, this one is {changed.hash})"
    assert str(warning.message) == f"{path}: {text}: searching over what is known"


def test_what_is_no_stale_plan_is_not_warned_of(
    tmp_path, monkeypatch, graph, changed, plan, make_record
) -> None:
    other_threads = plan_log(tmp_path / "threads.log", plan, graph, threads=4)
    records_only = log_of(tmp_path / "records.log", make_record(A))
    shipped = tmp_path / "shipped" / "testcpu" / "net.log"
    plan_log(shipped, plan, graph)
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path / "shipped"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_history(CPU).plan(changed) is None
        for path in (other_threads, records_only):
            with apply_history_best(path):
                assert current_history(CPU).plan(changed) is None


def test_a_log_of_several_networks_is_not_stale_for_one_of_them(
    tmp_path, graph, changed, plan
) -> None:
    old = plan_log(tmp_path / "old.log", plan, graph)
    new = plan_log(
        tmp_path / "new.log", replace(plan, graph=changed.hash, configs={"a": A, "b": A}), changed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with apply_history_best([old, new]):
            assert current_history(CPU).plan(graph) == plan
            assert current_history(CPU).plan(changed).graph == changed.hash
        with apply_history_best(new), apply_history_best(old):
            assert current_history(CPU).plan(changed).graph == changed.hash


def test_newer_records_are_not_blamed_on_the_plan_behind_them(
    tmp_path, graph, changed, plan, make_record
) -> None:
    outer = plan_log(tmp_path / "outer.log", plan, graph)
    inner = log_of(tmp_path / "inner.log", make_record(B))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with apply_history_best(outer), apply_history_best(inner):
            assert current_history(CPU).plan(changed) is None


def only_warning(known, workloads) -> str:
    """What the history says when a search asks it for records."""
    with pytest.warns(TuningLogWarning) as caught:
        assert known.tried(workloads) == {}
        assert known.schemes(workloads) == {}
    (warning,) = caught
    return str(warning.message)


def test_a_log_of_another_thread_count_says_so_once(tmp_path, graph, plan, make_record) -> None:
    path = log_of(tmp_path / "x.log", make_record(A, threads=8), make_record(B, threads=4))
    plan_log(path, plan, graph, threads=16)
    with apply_history_best(path):
        known = current_history(CPU)
        assert known.plan(graph) is None
        assert only_warning(known, graph.workloads) == (
            f"{path} holds nothing for this network on testcpu at thread count 2, "
            "only at 4, 8, 16: ignored"
        )


def test_a_log_of_other_layers_says_so_once(tmp_path, graph, make_record) -> None:
    other = make_record(B, workload=replace(graph.convs[0].workload, out_channels=32))
    path = log_of(tmp_path / "x.log", other)
    with apply_history_best(path):
        text = only_warning(current_history(CPU), graph.workloads)
    assert text == f"{path} holds nothing for this network on testcpu at thread count 2: ignored"


def test_a_log_of_another_cpu_is_named_once(tmp_path, graph, make_record) -> None:
    path = log_of(tmp_path / "x.log", make_record(A, cpu="other", threads=8))
    with apply_history_best(path):
        known = current_history(CPU)
        assert known.plan(graph) is None
        text = only_warning(known, graph.workloads)
    assert text == f"{path} was measured on other, this target is testcpu: ignored"


def test_what_holds_something_is_not_warned_of(
    tmp_path, monkeypatch, graph, plan, make_record
) -> None:
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path / "shipped"))
    log_of(tmp_path / "shipped" / "testcpu" / "x.log", make_record(A, threads=8))
    other = make_record(B, workload=replace(graph.convs[0].workload, out_channels=32))
    of_other_layers = log_of(tmp_path / "other.log", other)
    both_counts = log_of(tmp_path / "both.log", make_record(A), make_record(A, threads=8))
    plan_only = plan_log(tmp_path / "plan.log", plan, graph)
    failed = log_of(tmp_path / "failed.log", make_record(A, costs=(), error_no=4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_history(CPU).tried(graph.workloads) == {}
        for path in (both_counts, plan_only, failed):
            # Another log, applied for another network, holds nothing here.
            with apply_history_best(of_other_layers), apply_history_best(path):
                current_history(CPU).tried(graph.workloads)
        with apply_history_best(of_other_layers):
            assert current_history(CPU).tried(()) == {}


@pytest.mark.parametrize("threads", [0, 2])
def test_a_log_of_stale_records_says_so(tmp_path, graph, make_record, threads) -> None:
    path = log_of(tmp_path / "x.log", make_record(A, threads=threads, stamp=Stamp()))
    with apply_history_best(path):
        known = current_history(CPU)
        text = only_warning(known, graph.workloads)
    assert text == (
        f"{path} holds only stale records for this network on testcpu, of other versions: "
        "hints for tune, ignored here"
    )
    assert known.hints(graph.convs[0].workload) == (A,)
