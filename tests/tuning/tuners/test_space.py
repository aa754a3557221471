"""Order and numbers of a configuration space."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.tuning.tuners.space import feature_names, feature_vector, in_predicted_order

A, B, C = ConvConfig(8, 16, 7), ConvConfig(8, 16, 14), ConvConfig(16, 16, 14)


def test_the_cheapest_prediction_comes_first_and_each_config_once() -> None:
    prices = {A: 3.0, B: 1.0, C: 2.0}
    assert in_predicted_order([A, B, C, A], prices.__getitem__) == [B, C, A]


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -1.0, 0.0])
def test_a_prediction_that_is_no_time_comes_last(nonsense: float) -> None:
    prices = {A: nonsense, B: 1.0, C: 2.0}
    assert in_predicted_order([A, B, C], prices.__getitem__) == [B, C, A]


def test_features_are_knobs_on_a_log_scale() -> None:
    names = feature_names([A, B])
    vector = dict(zip(names, feature_vector(ConvConfig(0, 15, 7), names), strict=True))
    assert vector["is:conv2d_NCHWc"] == 1.0
    assert (vector["ic_bn"], vector["oc_bn"], vector["reg_n"]) == (0.0, 4.0, 3.0)
    assert (vector["unroll_ker"], vector["parallel_oc"]) == (1.0, 0.0)


def test_a_space_of_two_templates_has_the_knobs_of_both() -> None:
    winograd = WinogradConfig(16, 16, 4, 7)
    names = feature_names([A, winograd])
    vector = dict(zip(names, feature_vector(winograd, names), strict=True))
    assert vector["is:conv2d_NCHWc"] == 0.0
    assert vector["is:conv2d_NCHWc_winograd"] == 1.0
    assert math.isnan(vector["unroll_ker"])
