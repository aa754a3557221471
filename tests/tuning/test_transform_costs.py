"""Prices of layout transforms: measured, scaled from measured, free; and which are worth timing."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.transform_costs import TransformCosts

CPU = Cpu("testcpu", AVX512, 2)
SHAPE = (1, 64, 56, 56)
CONV = ConvWorkload(1, 64, 56, 56, 64, (1, 1))


def measured(move: TransformWorkload, seconds: float) -> TransformCosts:
    record = Record(move, TransformConfig(), (seconds,), CPU.name, 2)
    return TransformCosts.from_records(CPU, {move: [record]})


def test_a_measured_transform_costs_what_was_measured() -> None:
    costs = measured(TransformWorkload(*SHAPE, 16, 32), 1e-3)
    assert costs(SHAPE, Layout(16), Layout(32)) == 1e-3


def test_bytes_cost_a_quarter() -> None:
    costs = TransformCosts(CPU)
    whole, part = (costs(SHAPE, Layout(16), Layout(32), dtype) for dtype in ("float32", "uint8"))
    assert whole == costs(SHAPE, Layout(16), Layout(32))
    fork = CPU.fork_join
    assert part - fork == pytest.approx((whole - fork) / 4)


def test_others_of_its_kind_are_corrected_by_the_same_factor() -> None:
    plain, known = TransformCosts(CPU), measured(TransformWorkload(*SHAPE, 16, 32), 1e-3)
    factor = 1e-3 / plain(SHAPE, Layout(16), Layout(32))
    smaller = (1, 64, 28, 28)
    corrected = known(smaller, Layout(32), Layout(16))
    assert corrected == pytest.approx(factor * plain(smaller, Layout(32), Layout(16)))
    assert known(SHAPE, NCHW, Layout(16)) == plain(SHAPE, NCHW, Layout(16))


def known_at(sizes: dict[int, float]) -> TransformCosts:
    """Transforms 16 -> 32 of 64 channels and n by n pixels that took a multiple of what is said."""
    plain = TransformCosts(CPU)
    seconds = {
        TransformWorkload(1, 64, n, n, 16, 32): factor
        * plain((1, 64, n, n), Layout(16), Layout(32))
        for n, factor in sizes.items()
    }
    return TransformCosts(CPU, seconds)


def factor_at(costs: TransformCosts, n: int, before: int = 32, after: int = 16) -> float:
    """By how much the prediction is corrected for n by n pixels."""
    layouts = Layout(before), Layout(after)
    return costs((1, 64, n, n), *layouts) / TransformCosts(CPU)((1, 64, n, n), *layouts)


def test_between_two_measured_sizes_the_correction_is_between_theirs() -> None:
    costs = known_at({7: 4.0, 28: 1.0})
    # 14 is halfway in the logarithm of bytes, and so is 2 between 1 and 4.
    assert factor_at(costs, 14) == pytest.approx(2.0)
    factors = [factor_at(costs, n) for n in range(7, 29)]
    assert factors == sorted(factors, reverse=True)


def test_outside_the_measured_sizes_the_nearest_correction_holds() -> None:
    costs = known_at({7: 4.0, 28: 1.5})
    assert factor_at(costs, 3) == pytest.approx(4.0)
    assert factor_at(costs, 112) == pytest.approx(1.5)


def test_transforms_of_one_size_are_averaged() -> None:
    costs = known_at({14: 4.0})
    other = TransformWorkload(1, 64, 14, 14, 32, 8)
    seconds = TransformCosts(CPU)((1, 64, 14, 14), Layout(32), Layout(8))
    both = TransformCosts(CPU, {**costs.measured, other: seconds})
    assert factor_at(both, 14) == pytest.approx(2.0)
    assert both((1, 64, 14, 14), Layout(32), Layout(8)) == seconds


def test_out_of_plain_nchw_says_nothing_of_into_it() -> None:
    plain = TransformCosts(CPU)
    move = TransformWorkload(*SHAPE, 0, 16)
    costs = TransformCosts(CPU, {move: 1.0})
    assert costs(SHAPE, Layout(16), NCHW) == plain(SHAPE, Layout(16), NCHW)
    assert costs(SHAPE, NCHW, Layout(32)) > 10 * plain(SHAPE, NCHW, Layout(32))


def test_a_transform_that_moves_nothing_is_free() -> None:
    costs = TransformCosts(CPU)
    assert costs(SHAPE, NCHW, Layout(1)) == 0
    assert costs((1, 64, 1, 1), Layout(16), Layout(32)) == 0
