"""Which logs a build reads, and what it takes from them."""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace

import pytest
from small_logs import CPU, A, B, log_of, plan_log

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import HELD, Plan
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.tuning.database.folders import log_folders
from tvm_neocpu.tuning.database.history import apply_history_best, current_history
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning

pytestmark = pytest.mark.usefixtures("no_shipped_logs")

CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))


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


def test_schemes_are_for_known_workloads_only(tmp_path, make_record, conv) -> None:
    other = replace(conv, out_channels=128)
    with apply_history_best(log_of(tmp_path / "x.log", make_record(A), make_record(B, 2e-3))):
        schemes = current_history(CPU).schemes([conv, other])
    assert [record.config for record in schemes[conv]] == [A, B]
    assert other not in schemes


def test_failures_are_known_but_no_schemes(tmp_path, make_record, conv) -> None:
    failed = make_record(B, costs=(), error_no=4)
    with apply_history_best(log_of(tmp_path / "x.log", failed, make_record(A))):
        known = current_history(CPU)
        assert [record.config for record in known.tried([conv])[conv]] == [A, B]
        assert [record.config for record in known.schemes([conv])[conv]] == [A]
        with pytest.warns(TuningLogWarning, match="holds nothing for this network"):
            assert known.tried([replace(conv, out_channels=128)]) == {}


def test_a_plan_is_for_its_graph_cpu_and_thread_count(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append_plan(plan, graph, "testcpu", 2)
    with apply_history_best(log.path):
        assert current_history(CPU).plan(graph) == plan
        assert current_history(CPU.with_cores(4)).plan(graph) is None
        assert current_history(replace(CPU, name="other")).plan(graph) is None
        node = replace(graph.nodes[0], id="b")
        with pytest.warns(TuningLogWarning, match="is for another network"):
            assert current_history(CPU).plan(ConvGraph((node,), ())) is None


def test_a_plan_that_lacks_a_node_is_no_plan(tmp_path, graph, plan) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append_plan(replace(plan, configs={}), graph, "testcpu", 2)
    with apply_history_best(log.path):
        assert current_history(CPU).plan(graph) is None


def other_network(name="z"):
    """A network that shares its one workload with the test's graph."""
    node = GraphNode(name, NodeKind.CONV, "conv", (1, 64, 56, 56), CONV)
    graph = ConvGraph((node,), ())
    return graph, Plan(graph.hash, {name: B})


def test_a_shipped_log_of_another_network_hides_no_plan(
    tmp_path, monkeypatch, graph, plan, make_record
) -> None:
    """ResNet-50's log has records of layers that ResNet-18 has too."""
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path))
    plan_log(tmp_path / "testcpu" / "resnet18.log", plan, graph)
    another = plan_log(tmp_path / "testcpu" / "resnet50.log", *reversed(other_network()))
    log_of(another, make_record(B))
    log_of(tmp_path / "testcpu" / "resnet9.log", make_record(B))
    assert current_history(CPU).plan(graph) == plan


def test_of_shipped_plans_for_one_graph_the_last_counts(tmp_path, monkeypatch, graph, plan) -> None:
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path))
    newer = replace(plan, configs={"a": B})
    plan_log(tmp_path / "testcpu" / "1.log", plan, graph)
    plan_log(tmp_path / "testcpu" / "2.log", newer, graph)
    assert current_history(CPU).plan(graph) == newer


def test_an_applied_log_wins_over_shipped_ones(
    tmp_path, monkeypatch, graph, plan, make_record
) -> None:
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path / "shipped"))
    plan_log(tmp_path / "shipped" / "testcpu" / "x.log", plan, graph)
    mine = replace(plan, configs={"a": B})
    with apply_history_best(plan_log(tmp_path / "plan.log", mine, graph)):
        assert current_history(CPU).plan(graph) == mine


def test_what_an_interrupted_session_holds_hides_no_proven_plan(
    tmp_path, graph, plan, make_record
) -> None:
    held = replace(plan, configs={"a": B}, method=HELD)
    proven = plan_log(tmp_path / "proven.log", plan, graph)
    interrupted = plan_log(tmp_path / "interrupted.log", held, graph)
    with apply_history_best([proven, interrupted]):
        assert current_history(CPU).plan(graph) == plan
    related = log_of(tmp_path / "related.log", make_record(A))
    with apply_history_best([interrupted, related]), pytest.warns(TuningLogWarning, match="no pla"):
        assert current_history(CPU).plan(graph) == held


def test_an_applied_log_of_another_network_hides_no_plan(
    tmp_path, graph, plan, make_record
) -> None:
    mine = plan_log(tmp_path / "mine.log", plan, graph)
    another = plan_log(tmp_path / "another.log", *reversed(other_network()))
    log_of(another, make_record(B))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with apply_history_best(mine), apply_history_best(another):
            assert current_history(CPU).plan(graph) == plan


def test_records_of_another_thread_count_or_cpu_hide_no_plan(
    tmp_path, graph, plan, make_record
) -> None:
    mine = plan_log(tmp_path / "mine.log", plan, graph)
    foreign = log_of(
        tmp_path / "foreign.log", make_record(B, threads=8), make_record(B, cpu="other")
    )
    with apply_history_best(mine), apply_history_best(foreign):
        assert current_history(CPU).plan(graph) == plan


def test_plans_of_all_logs_come_before_records_of_any(
    tmp_path, monkeypatch, graph, plan, make_record
) -> None:
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path / "shipped"))
    planned = plan_log(tmp_path / "shipped" / "testcpu" / "x.log", plan, graph)
    related = log_of(tmp_path / "related.log", make_record(B))
    other = make_record(B, workload=replace(graph.convs[0].workload, out_channels=32))
    unrelated = log_of(tmp_path / "unrelated.log", other)
    with apply_history_best([related, unrelated]), pytest.warns(TuningLogWarning) as caught:
        assert current_history(CPU).plan(graph) == plan
    (warning,) = caught
    assert str(warning.message) == (
        f"{related} has no plan for this network: the plan of {planned} is taken, not its records"
    )


def test_a_shipped_log_that_changes_is_read_again(tmp_path, monkeypatch, make_record, conv) -> None:
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path))
    path = log_of(tmp_path / "testcpu" / "x.log", make_record(A, 2e-3))
    assert current_history(CPU).best_records.best(conv).config == A
    log_of(path, make_record(B, 1e-3))
    assert current_history(CPU).best_records.best(conv).config == B


def test_a_shipped_log_is_read_again_when_its_template_is_registered(
    tmp_path, monkeypatch, make_record, conv, fancy, registered
) -> None:
    monkeypatch.setenv(log_folders.LOGS_VARIABLE, str(tmp_path))
    config = fancy.config_type(8, 16)
    with registered(fancy):
        log_of(tmp_path / "testcpu" / "x.log", make_record(A, 2e-3), make_record(config, 1e-3))
    with pytest.warns(TuningLogWarning, match="unknown template 'conv2d_fancy'"):
        assert current_history(CPU).best_records.best(conv).config == A
    with registered(fancy):
        assert current_history(CPU).best_records.best(conv).config == config
