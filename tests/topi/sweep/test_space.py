"""A sweep is no tuning task: no implementation takes it."""

from __future__ import annotations

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.topi.table import implementations, space_of

POOL = SweepWorkload("pool", ((1, 8, 6, 6),), (1, 8, 6, 6), 9, 8)


def test_there_is_nothing_to_choose() -> None:
    cpu = Cpu("haswell", AVX2, cores=1)
    assert implementations(POOL, cpu) == ()
    assert space_of(POOL, cpu) == ()
