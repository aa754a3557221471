"""The computed moments against those of drawn values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvm_neocpu.contrib.model_zoo import moments
from tvm_neocpu.contrib.model_zoo.moments import Moments, Values

SIGNAL = Moments(mean=0.3, channel=0.4, position=0.8)


def _draw(signal: Moments) -> Values:
    """Values of shape (channels, positions)."""
    rng = np.random.default_rng(3)
    channels = rng.standard_normal((20_000, 1)) * signal.channel**0.5
    positions = rng.standard_normal((20_000, 100)) * signal.position**0.5
    values: Values = signal.mean + channels + positions
    return values


def _measure(values: Values) -> tuple[float, float, float]:
    channel_means = values.mean(axis=1)
    return values.mean(), channel_means.var(), values.var(axis=1).mean()


def _parts(signal: Moments) -> tuple[float, float, float]:
    return signal.mean, signal.channel, signal.position


@pytest.mark.parametrize("function", [lambda v: np.maximum(v, 0), np.tanh], ids=["relu", "tanh"])
def test_elementwise_meets_drawn_values(function: Callable[[Values], Values]) -> None:
    expected = _measure(function(_draw(SIGNAL)))
    assert _parts(moments.after_elementwise(SIGNAL, function)) == pytest.approx(expected, rel=0.05)


def test_scale_and_shift() -> None:
    scaled = moments.after_scale(SIGNAL, 2.0)
    assert _parts(moments.after_shift(scaled, 0.5)) == pytest.approx((0.6, 2.1, 3.2))


def test_filters_pass_on_a_share_of_the_mean() -> None:
    assert _parts(moments.after_filters(SIGNAL, kept=1.0, gain=2.0)) == pytest.approx(
        (0.0, 0.98, 1.6)
    )
    assert moments.after_filters(SIGNAL, kept=0.0, gain=1.0).channel == pytest.approx(0.4)


def test_concat_keeps_the_power() -> None:
    other = Moments(mean=-1.0, channel=0.0, position=0.2)
    joined = moments.after_concat([(1, SIGNAL), (3, other)])
    assert joined.power == pytest.approx((SIGNAL.power + 3 * other.power) / 4)
    assert joined.mean == pytest.approx((0.3 - 3.0) / 4)


def test_maximum_of_nine() -> None:
    standard = Moments(0.0, 0.0, 1.0)
    drawn = np.random.default_rng(5).standard_normal((100_000, 9)).max(axis=1).mean()
    assert moments.after_maximum(standard, 9).mean == pytest.approx(drawn, rel=0.02)
