"""What a layout transform is said to cost."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.layout_transform.cost import predict_seconds
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

CPU = Cpu("skylake-avx512", AVX512, cores=2)
MOVE = TransformWorkload(1, 64, 56, 56, 16, 8)


def price(move: TransformWorkload, cpu: Cpu = CPU) -> float:
    return predict_seconds(move, TransformConfig(), cpu)


def test_moving_nothing_is_free() -> None:
    assert price(replace(MOVE, height=1, width=1)) == 0
    assert price(replace(MOVE, before=0, after=1)) == 0
    assert price(replace(MOVE, after=16)) == 0


def test_moving_more_costs_more() -> None:
    assert 0 < price(MOVE) < price(replace(MOVE, channels=128)) < price(replace(MOVE, batch=64))


def test_single_elements_cost_more_than_vectors() -> None:
    assert price(replace(MOVE, after=0)) > price(MOVE)
    assert price(replace(MOVE, before=0)) > price(MOVE)


def test_cores_share_the_work() -> None:
    assert price(MOVE, CPU.with_cores(8)) < price(MOVE)
