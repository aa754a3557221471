"""Ratios of paired times: unmoved by drift and by outliers, sure when they say so."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_neocpu.tuning.in_network.ratios import Ratio, combined, paired


def test_a_clock_that_drifts_changes_nothing() -> None:
    drift = np.linspace(1.0, 1.6, 20)
    ratio = paired((0.9 * drift).tolist(), drift.tolist())
    assert ratio.value == pytest.approx(0.9)
    assert ratio.is_below_one


def test_one_disturbed_run_does_not_count() -> None:
    ours, theirs = [1.0] * 9 + [50.0], [1.0] * 10
    assert paired(ours, theirs).value == pytest.approx(1.0)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        noise = np.exp(0.03 * rng.standard_normal((2, 15)))
        ratio = paired((1.1 * noise[0]).tolist(), noise[1].tolist())
        hits += ratio.low <= 1.1 <= ratio.high
    assert 0.85 < hits / 400 < 0.99


def test_noise_alone_is_seldom_called_faster_however_often_one_looks() -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(200):
        noise = np.exp(0.03 * rng.standard_normal((2, 60)))
        looks = [paired(noise[0, :n].tolist(), noise[1, :n].tolist()) for n in range(8, 61)]
        wrong += any(look.is_below_one for look in looks)
    assert wrong / 200 < 0.12


def test_readings_are_weighted_by_how_sure_they_are() -> None:
    sure, unsure = Ratio(math.log(0.9), 0.005), Ratio(math.log(0.95), 0.05)
    both = combined([sure, unsure])
    assert abs(both.log - sure.log) < abs(both.log - unsure.log) / 50
    assert both.error < unsure.error


def test_readings_that_disagree_are_less_sure() -> None:
    alike = combined([Ratio(0.0, 0.005), Ratio(0.001, 0.005)])
    apart = combined([Ratio(0.0, 0.005), Ratio(0.1, 0.005)])
    assert apart.error > 5 * alike.error
