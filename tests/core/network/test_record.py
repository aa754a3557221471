"""Records: the median of what was measured, and failures that never win."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload

DENSE = DenseWorkload(1, 1000, 500)


def record(*costs: float, error_no: int = 0, readings: int = 0) -> Record:
    config = DenseConfig(16)
    return Record(DENSE, config, costs, "haswell", 4, error_no=error_no, readings=readings)


def test_seconds_are_the_median() -> None:
    assert record(3e-3, 1e-3, 2e-3).seconds == 2e-3


@pytest.mark.parametrize(
    ("readings", "confirmed", "seconds"), [(0, True, 2e-3), (1, False, 3e-3), (2, True, 2e-3)]
)
def test_a_first_reading_is_believed_at_its_upper_end(
    readings: int, confirmed: bool, seconds: float
) -> None:
    read = record(1e-3, 2e-3, 3e-3, readings=readings)
    assert read.confirmed == confirmed
    assert read.seconds == seconds
    assert read.read_seconds == 2e-3


def test_gflops() -> None:
    assert record(1e-3).gflops == pytest.approx(2 * 1000 * 500 / 1e-3 / 1e9)


@pytest.mark.parametrize("failed", [record(), record(1e-9, error_no=4)])
def test_a_failure_is_infinitely_slow(failed: Record) -> None:
    assert not failed.ok
    assert failed.seconds == failed.read_seconds == math.inf
    assert failed.gflops == 0
