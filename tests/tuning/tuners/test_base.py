"""The order in which tuners go through a space."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.tuners.base import in_predicted_order

A, B, C = ConvConfig(8, 16, 7), ConvConfig(8, 16, 14), ConvConfig(16, 16, 14)


def test_the_cheapest_prediction_comes_first_and_each_config_once() -> None:
    prices = {A: 3.0, B: 1.0, C: 2.0}
    assert in_predicted_order([A, B, C, A], prices.__getitem__) == [B, C, A]


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -1.0, 0.0])
def test_a_prediction_that_is_not_a_positive_time_comes_last(nonsense: float) -> None:
    prices = {A: nonsense, B: 1.0, C: 2.0}
    assert in_predicted_order([A, B, C], prices.__getitem__) == [B, C, A]
