"""Ranges from histograms: what each method keeps of known distributions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tvm_neocpu.quantizing.calibration.range_methods import (
    BINS,
    LEVELS,
    METHODS,
    Histogram,
    Range,
    mse,
    percentile,
)

Floats = NDArray[np.float64]
RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal(200_000)
RELU = np.maximum(NORMAL, 0)
UNIFORM = RNG.uniform(-1, 3, 100_000)


def seen(values: Floats) -> Histogram:
    low, high = float(values.min()), float(values.max())
    limits = (low, high) if low < high else None
    return Histogram(Range(low, high), np.histogram(values, BINS, limits)[0])


def squared_error(values: Floats, kept: Range) -> float:
    """Mean square of what rounding to u8 within the range changes."""
    step = (kept.high - kept.low) / (LEVELS - 1)
    zero = round(-kept.low / step)
    levels = np.clip(np.rint(values / step) + zero, 0, LEVELS - 1)
    return float(np.mean((values - (levels - zero) * step) ** 2))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize(
    "values",
    [NORMAL, RELU, UNIFORM, NORMAL + 10, -RELU, np.zeros(9), np.full(9, 2.0), np.full(9, -3.0)],
    ids=["normal", "relu", "uniform", "shifted", "negative", "zeros", "constant", "constant < 0"],
)
def test_a_range_has_zero_and_lies_within_what_was_seen(
    method: Callable[[Histogram], Range], values: Floats
) -> None:
    kept = method(seen(values))
    assert min(values.min(), 0) <= kept.low <= 0 <= kept.high <= max(values.max(), 0)
    if values.any():
        assert kept.low < kept.high


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_uniform_distribution_is_kept_whole(method: Callable[[Histogram], Range]) -> None:
    kept = method(seen(UNIFORM))
    assert kept.low == pytest.approx(-1, abs=0.05) and kept.high == pytest.approx(3, abs=0.1)


def test_mse_has_the_least_error_of_all() -> None:
    for values in (NORMAL, RELU, np.append(NORMAL, np.full(20, 15.0))):
        errors = {
            name: squared_error(values, found(seen(values))) for name, found in METHODS.items()
        }
        assert min(errors.values()) >= 0.97 * errors["mse"]


def test_percentile_leaves_out_an_outlier() -> None:
    kept = percentile(seen(np.append(NORMAL, 100.0)))
    assert kept.high < 5 and kept.low == pytest.approx(-4.3, abs=0.4)


def test_zeros_of_a_relu_do_not_narrow_entropys_range() -> None:
    assert METHODS["entropy"](seen(RELU)).high > 3.5


def test_mse_of_one_bin_is_that_bin() -> None:
    assert mse(Histogram(Range(0.0, 0.0), np.array([5] + [0] * (BINS - 1)))) == Range(0.0, 0.0)
