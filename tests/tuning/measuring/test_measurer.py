"""Replaying a log in place of measuring."""

from __future__ import annotations

from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.measuring.measurer import Measured, MeasureErrorNo, ReplayMeasurer

A, B, C = ConvConfig(8, 16, 7), ConvConfig(8, 16, 14), ConvConfig(16, 16, 14)


def test_it_answers_what_the_log_says(make_record, make_task) -> None:
    records = [make_record(A, 1e-3, all_cost=0.5), make_record(B, costs=(), error_no=6)]
    good, bad, unknown = ReplayMeasurer(records, "testcpu", 2).measure(make_task(), [A, B, C])
    assert good == Measured(A, (1e-3,), all_cost=0.5)
    assert (bad.costs, bad.error_no) == ((), MeasureErrorNo.BUILD_TIMEOUT)
    assert (unknown.costs, unknown.error_no) == ((), MeasureErrorNo.UNKNOWN_ERROR)
    assert unknown.seconds == float("inf")


def test_records_of_other_machines_are_not_replayed(make_record, make_task) -> None:
    records = [make_record(A, threads=4), make_record(A, cpu="other")]
    (answer,) = ReplayMeasurer(records, "testcpu", 2).measure(make_task(), [A])
    assert answer.error_no == MeasureErrorNo.UNKNOWN_ERROR


def test_a_results_seconds_are_its_median() -> None:
    assert Measured(A, (3.0, 1.0, 2.0)).seconds == 2.0
