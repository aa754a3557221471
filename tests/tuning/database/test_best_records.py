"""The best record of a workload and of a layout pair, on the right machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.network.record import IN_NETWORK, Stamp
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.tuning.database.best_records import BestRecords
from tvm_neocpu.tuning.database.lines.staleness import record_stamp

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


def test_records_without_a_thread_count_never_answer(make_record, conv) -> None:
    unsaid = [make_record(A, 1e-3, threads=0), make_record(B, 3e-3, threads=0)]
    best = BestRecords(unsaid, "testcpu", 2)
    assert best.all_of(conv) == best.attempted == ()
    assert best.recorded == (conv,)
    assert best.hints(conv) == (A, B)


@pytest.mark.parametrize(
    "stamp",
    [
        Stamp(),
        replace(record_stamp(A), template="00000000"),
        replace(record_stamp(A), tvm="0.26.0"),
        replace(record_stamp(A), protocol=99),
    ],
)
def test_a_stale_record_is_a_hint_and_no_measurement(make_record, conv, stamp) -> None:
    best = BestRecords([make_record(A, stamp=stamp)], "testcpu", 2)
    assert best.best(conv) is None
    assert best.measured(conv) == {}
    assert best.hints(conv) == (A,)
    measured = BestRecords([make_record(A, stamp=stamp), make_record(A)], "testcpu", 2)
    assert set(measured.measured(conv)) == {A}
    assert measured.hints(conv) == ()


def test_a_stale_time_replaces_no_measurement(make_record, conv) -> None:
    records = [make_record(A, 2e-3), make_record(A, 1e-9, stamp=Stamp())]
    assert BestRecords(records, "testcpu", 2).best(conv).seconds == 2e-3


def test_hints_of_this_thread_count_come_first_the_fastest_leading(make_record, conv) -> None:
    records = [
        make_record(C, 1e-3, threads=8),
        make_record(A, 3e-3, stamp=Stamp()),
        make_record(B, 2e-3, stamp=Stamp()),
        make_record(C, 1e-3, cpu="other"),
        make_record(ConvConfig(4, 4, 4), costs=(), error_no=4, stamp=Stamp()),
    ]
    assert BestRecords(records, "testcpu", 2).hints(conv) == (B, A, C)


def test_times_of_two_protocols_are_not_compared(make_record, conv) -> None:
    placed = replace(record_stamp(A), protocol=IN_NETWORK)
    records = [make_record(A, 1e-3), make_record(B, 2e-3, stamp=placed), make_record(B, 5e-4)]
    best = BestRecords(records, "testcpu", 2)
    assert best.ascending(conv) == (records[1],)
    assert set(best.measured(conv)) == {A, B}


def test_a_config_that_failed_in_one_protocol_has_failed(make_record, conv) -> None:
    placed = replace(record_stamp(A), protocol=IN_NETWORK)
    wrong = make_record(A, costs=(), error_no=8, stamp=placed)
    records = [make_record(A, 1e-3), wrong, make_record(B, 2e-3)]
    assert BestRecords(records, "testcpu", 2).ascending(conv) == (records[2],)


def test_features_are_part_of_the_key_where_both_sides_know_them(make_record, conv) -> None:
    records = [make_record(A, features="11111111"), make_record(B)]
    assert set(BestRecords(records, "testcpu", 2, "11111111").measured(conv)) == {A, B}
    assert set(BestRecords(records, "testcpu", 2, "22222222").measured(conv)) == {B}
    assert set(BestRecords(records, "testcpu", 2).measured(conv)) == {A, B}


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
