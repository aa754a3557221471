"""Transforms and sweeps among the timed functions of a network become records."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.tuning.in_network.rounds.beside import beside_in, beside_records

IMAGE = (1, 16, 8, 8)
POOL = (SweepWorkload("pool", (IMAGE,), IMAGE, 9, 16), SweepConfig())
MOVE = (TransformWorkload(1, 16, 8, 8, 16, 0), TransformConfig())


def record(workload, config, costs, error_no) -> Record:
    return Record(workload, config, tuple(costs), "testcpu", 1, error_no=error_no)


def test_each_is_timed_once_for_all_its_calls(make_task, space) -> None:
    layer = (make_task("x", 32).workload, space[0])
    runs = [{layer: 1.0, POOL: 0.4 + n, MOVE: 0.1, None: 0.5} for n in (0, 0.2, 5)]
    assert beside_in(runs[0]) == {POOL[0], MOVE[0]}
    calls = {layer: 3, POOL: 2, MOVE: 1}
    found = {r.workload: r for r in beside_records(runs, calls, 0.5, record)}
    assert set(found) == {POOL[0], MOVE[0]}
    assert found[POOL[0]].costs == (pytest.approx(0.5 * 0.6 / 2),)
    assert found[MOVE[0]].costs == (pytest.approx(0.05),)
