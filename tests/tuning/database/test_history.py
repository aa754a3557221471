"""Which logs a build reads, and what it takes from them."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import replace

import pytest

from tvm_neocpu.core.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.cpu import AVX2, Cpu
from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.record import Stamp
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database import places
from tvm_neocpu.tuning.database.history import apply_history_best, current_history
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning

CPU = Cpu("testcpu", AVX2, 2)
A, B = ConvConfig(8, 16, 7), ConvConfig(16, 16, 14)
CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))


@pytest.fixture(autouse=True)
def no_shipped_logs(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(places, "_PACKAGE", tmp_path / "nowhere")
    monkeypatch.delenv(places.LOGS_VARIABLE, raising=False)


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
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path))
    plan_log(tmp_path / "testcpu" / "resnet18.log", plan, graph)
    another = plan_log(tmp_path / "testcpu" / "resnet50.log", *reversed(other_network()))
    log_of(another, make_record(B))
    log_of(tmp_path / "testcpu" / "resnet9.log", make_record(B))
    assert current_history(CPU).plan(graph) == plan


def test_of_shipped_plans_for_one_graph_the_last_counts(tmp_path, monkeypatch, graph, plan) -> None:
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path))
    newer = replace(plan, configs={"a": B})
    plan_log(tmp_path / "testcpu" / "1.log", plan, graph)
    plan_log(tmp_path / "testcpu" / "2.log", newer, graph)
    assert current_history(CPU).plan(graph) == newer


def test_an_applied_log_wins_over_shipped_ones(
    tmp_path, monkeypatch, graph, plan, make_record
) -> None:
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path / "shipped"))
    plan_log(tmp_path / "shipped" / "testcpu" / "x.log", plan, graph)
    mine = replace(plan, configs={"a": B})
    with apply_history_best(plan_log(tmp_path / "plan.log", mine, graph)):
        assert current_history(CPU).plan(graph) == mine


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
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path / "shipped"))
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


@pytest.fixture
def changed(graph):
    """The graph with one more layer: the convolution of the old one keeps its identity."""
    head = GraphNode("b", NodeKind.CONV, "conv", (1, 64, 56, 56), graph.convs[0].workload)
    return ConvGraph((*graph.nodes, head), ())


def plan_log(path, plan, graph, threads=2):
    log = TuningLog(path)
    log.append_plan(plan, graph, "testcpu", threads)
    return path


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
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path / "shipped"))
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
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path / "shipped"))
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
    assert known.hints(CONV) == (A,)


def test_shipped_logs_are_found_by_the_cpus_name(tmp_path, monkeypatch, make_record, conv) -> None:
    monkeypatch.setattr(places, "_PACKAGE", tmp_path / "src" / "tvm_neocpu")
    wheel = tmp_path / "src" / "tvm_neocpu" / "_tuning_logs" / "testcpu" / "net.log"
    checkout = tmp_path / "src" / "tuning_logs" / "testcpu" / "net.log"
    extra = tmp_path / "extra" / "testcpu" / "net.log"
    other = tmp_path / "extra" / "other" / "net.log"
    for number, path in enumerate((wheel, checkout, extra, other), 1):
        log_of(path, make_record(A, 1e-3 * number))
    variable = os.pathsep.join(["", str(tmp_path / "extra")])
    monkeypatch.setenv(places.LOGS_VARIABLE, variable)
    assert places.shipped_logs("testcpu") == (wheel, checkout)
    assert places.named_logs("testcpu") == (extra,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_history(CPU).best_records.best(conv).seconds == 3e-3


def test_a_folder_of_logs_that_is_not_there_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path / "missing"))
    with pytest.warns(TuningLogWarning, match="TVM_NEOCPU_LOGS names .*missing"):
        places.named_logs("testcpu")


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc"])
def test_a_cpus_name_is_no_path(name, tmp_path, monkeypatch) -> None:
    (tmp_path / "x.log").write_text("")
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path / "folder"))
    assert places.named_logs(name) == places.shipped_logs(name) == ()
    assert places.find_user_log(name) is None


def test_a_shipped_log_that_changes_is_read_again(tmp_path, monkeypatch, make_record, conv) -> None:
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path))
    path = log_of(tmp_path / "testcpu" / "x.log", make_record(A, 2e-3))
    assert current_history(CPU).best_records.best(conv).config == A
    log_of(path, make_record(B, 1e-3))
    assert current_history(CPU).best_records.best(conv).config == B


def test_a_shipped_log_is_read_again_when_its_template_is_registered(
    tmp_path, monkeypatch, make_record, conv, fancy, registered
) -> None:
    monkeypatch.setenv(places.LOGS_VARIABLE, str(tmp_path))
    config = fancy.config_type(8, 16)
    with registered(fancy):
        log_of(tmp_path / "testcpu" / "x.log", make_record(A, 2e-3), make_record(config, 1e-3))
    with pytest.warns(TuningLogWarning, match="unknown template 'conv2d_fancy'"):
        assert current_history(CPU).best_records.best(conv).config == A
    with registered(fancy):
        assert current_history(CPU).best_records.best(conv).config == config
