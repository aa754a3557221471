"""The best record of a workload and of a layout pair, on the right machine."""

from __future__ import annotations

from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.tuning.database.best_records import BestRecords

A, B, C = ConvConfig(8, 16, 7), ConvConfig(8, 16, 14), ConvConfig(16, 16, 14)


def test_the_fastest_wins(make_record, conv) -> None:
    records = [make_record(A, 3e-3), make_record(B, 1e-3), make_record(C, 2e-3)]
    best = BestRecords(records, "testcpu", 2)
    assert best.best(conv) == records[1]
    assert [record.config for record in best.ascending(conv)] == [B, C, A]
    assert best.workloads == (conv,)


def test_nothing_known_is_none(conv) -> None:
    best = BestRecords([], "testcpu", 2)
    assert best.best(conv) is None
    assert best.candidates(conv) == ()
    assert best.workloads == ()


def test_one_candidate_a_layout_pair_ascending(make_record, conv) -> None:
    records = [make_record(A, 2e-3), make_record(B, 3e-3), make_record(C, 1e-3)]
    best = BestRecords(records, "testcpu", 2)
    assert [record.config for record in best.candidates(conv)] == [C, A]


def test_dense_layers_are_one_layout_pair(make_record) -> None:
    dense = DenseWorkload(1, 64, 64)
    records = [make_record(DenseConfig(n), 1e-3 * n, workload=dense) for n in (16, 8)]
    best = BestRecords(records, "testcpu", 2)
    assert [record.config.oc_bn for record in best.candidates(dense)] == [8]


def test_failures_are_never_best(make_record, conv) -> None:
    failure = make_record(A, costs=(), error_no=4)
    best = BestRecords([failure], "testcpu", 2)
    assert best.best(conv) is None
    assert best.measured(conv) == {A: failure}


def test_times_of_another_thread_count_are_never_used(make_record, conv) -> None:
    records = [make_record(A, 1e-3, threads=8), make_record(B, 1e-3, threads=1)]
    best = BestRecords(records, "testcpu", 2)
    assert best.best(conv) is None
    assert best.all_of(conv) == ()
    assert best.workloads == best.attempted == ()


def test_records_without_a_thread_count_answer_if_nothing_else_worked(make_record, conv) -> None:
    unsaid = [make_record(A, 1e-3, threads=0), make_record(B, 3e-3, threads=0)]
    assert [r.config for r in BestRecords(unsaid, "testcpu", 2).ascending(conv)] == [A, B]
    assert BestRecords(unsaid, "testcpu", 2).attempted == (conv,)
    ours = make_record(B, 5e-3)
    assert BestRecords([ours, *unsaid], "testcpu", 2).ascending(conv) == (ours,)
    failed = make_record(C, costs=(), error_no=4)
    assert [r.config for r in BestRecords([failed, *unsaid], "testcpu", 2).all_of(conv)] == [
        *(A, B, C)
    ]


def test_a_config_that_failed_here_is_not_taken_from_an_old_record(make_record, conv) -> None:
    records = [make_record(A, 1e-3, threads=0), make_record(A, costs=(), error_no=4)]
    best = BestRecords(records, "testcpu", 2)
    assert best.best(conv) is None
    assert [record.ok for record in best.all_of(conv)] == [False]


def test_another_cpus_records_are_never_used(make_record, conv) -> None:
    records = [make_record(A, cpu="cortex-a72"), make_record(B, cpu="")]
    assert BestRecords(records, "testcpu", 2).best(conv) is None


def test_a_later_measurement_replaces_an_earlier_one(make_record, conv) -> None:
    records = [make_record(A, 1e-3), make_record(B, 2e-3), make_record(A, 3e-3)]
    best = BestRecords(records, "testcpu", 2)
    assert best.best(conv).config == B
    broken = BestRecords([*records, make_record(B, costs=(), error_no=2)], "testcpu", 2)
    assert broken.best(conv).config == A


def test_measured_is_of_this_thread_count_only(make_record, conv) -> None:
    records = [make_record(A), make_record(B, threads=4)]
    assert set(BestRecords(records, "testcpu", 2).measured(conv)) == {A}
