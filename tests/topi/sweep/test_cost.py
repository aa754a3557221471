"""What a sweep is said to cost: by its layout, its size, its window and the cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.cpus import ZEN_3
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.topi.sweep.cost import predict_seconds
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.topi.sweep.workload import SweepWorkload

CPU = Cpu("haswell", AVX2, cores=1)
IMAGE = (1, 64, 56, 56)
POOL = SweepWorkload("pool", (IMAGE,), IMAGE, 9, 16)
COPY = SweepWorkload("move", (IMAGE, IMAGE), (1, 128, 56, 56), 1, 16)


def price(sweep: SweepWorkload, cpu: Cpu = CPU) -> float:
    return predict_seconds(sweep, SweepConfig(), cpu)


def test_a_window_is_dearer_where_its_elements_are_not_side_by_side() -> None:
    assert price(POOL) < price(replace(POOL, block=4)) < price(replace(POOL, block=0))


def test_a_copy_costs_its_bytes_in_every_layout() -> None:
    assert price(COPY) == price(replace(COPY, block=0))
    half = SweepWorkload("move", ((1, 32, 56, 56),) * 2, IMAGE, 1, 16)
    assert price(half) == pytest.approx(price(COPY) / 2, rel=0.1)


def test_a_larger_window_and_fewer_cores_take_longer() -> None:
    assert price(POOL) < price(replace(POOL, taps=49))
    assert price(POOL, CPU.with_cores(2)) < price(POOL)


# Zen 3, 1 thread, inside the networks of the untuned plans, in microseconds.
MEASURED = {
    "resnet18": (SweepWorkload("pool", ((1, 64, 112, 112),), IMAGE, 9, 16), 134.5),
    "googlenet": (
        SweepWorkload(
            "move",
            ((1, 128, 28, 28), (1, 192, 28, 28), (1, 96, 28, 28), (1, 64, 28, 28)),
            (1, 480, 28, 28),
            1,
            16,
        ),
        67.7,
    ),
    "googlenet 14": (SweepWorkload("pool", ((1, 512, 14, 14),), (1, 512, 14, 14), 9, 16), 41.5),
    "squeezenet": (SweepWorkload("reduce", ((1, 1000, 13, 13),), (1, 1000, 1, 1), 169, 8), 26.3),
}


@pytest.mark.parametrize("name", MEASURED)
def test_predictions_are_near_what_was_measured(name: str) -> None:
    sweep, microseconds = MEASURED[name]
    assert price(sweep, ZEN_3) * 1e6 == pytest.approx(microseconds, rel=0.4)
