"""Records: the median of what was measured, and failures that never win."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.core.record import Record
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload

DENSE = DenseWorkload(1, 1000, 500)


def record(*costs: float, error_no: int = 0) -> Record:
    return Record(DENSE, DenseConfig(16), costs, "haswell", threads=4, error_no=error_no)


def test_seconds_are_the_median() -> None:
    assert record(3e-3, 1e-3, 2e-3).seconds == 2e-3


def test_gflops() -> None:
    assert record(1e-3).gflops == pytest.approx(2 * 1000 * 500 / 1e-3 / 1e9)


@pytest.mark.parametrize("failed", [record(), record(1e-9, error_no=4)])
def test_a_failure_is_infinitely_slow(failed: Record) -> None:
    assert not failed.ok
    assert failed.seconds == math.inf
    assert failed.gflops == 0
