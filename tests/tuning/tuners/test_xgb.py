"""The learning tuner: it follows the cost model until it has observed enough."""

from __future__ import annotations

import math
from itertools import product

import pytest

from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.tuning.tuners.features import feature_names, feature_vector
from tvm_neocpu.tuning.tuners.grid import GridTuner
from tvm_neocpu.tuning.tuners.xgb import WARM_UP, XGBTuner

SPACE = tuple(
    ConvConfig(ic_bn, oc_bn, reg_n, unroll)
    for ic_bn, oc_bn, reg_n, unroll in product(
        (1, 2, 4, 8, 16, 32), (4, 8, 16, 32), (2, 4, 7, 8, 14, 28), (True, False)
    )
)


def wrong_model(config) -> float:
    """Rates large tiles as fast; in truth registers spill from reg_n = 8 on."""
    return 1.0 / config.reg_n / config.oc_bn


def true_seconds(config) -> float:
    spill = 8.0 if config.reg_n >= 8 else 1.0
    return 1e-3 * wrong_model(config) * spill * (1.0 if config.unroll_ker else 1.3)


def best_after(tuner, trials: int) -> float:
    best = float("inf")
    for _ in range(trials // 8):
        for config in tuner.propose(8):
            seconds = true_seconds(config)
            tuner.observe(config, seconds)
            best = min(best, seconds)
    return best


def test_it_learns_where_the_cost_model_errs() -> None:
    optimum = min(map(true_seconds, SPACE))
    assert best_after(GridTuner(SPACE, wrong_model), 48) > 1.5 * optimum
    assert best_after(XGBTuner(SPACE, wrong_model, epsilon=0.2), 48) == pytest.approx(optimum)


def test_before_it_has_seen_enough_it_follows_the_cost_model() -> None:
    tuner = XGBTuner(SPACE, wrong_model, epsilon=0.0)
    assert tuner.propose(WARM_UP) == GridTuner(SPACE, wrong_model).propose(WARM_UP)


def test_seeds_matter() -> None:
    tuners = [XGBTuner(SPACE, wrong_model, seed, epsilon=0.5) for seed in (1, 2)]
    assert tuners[0].propose(50) != tuners[1].propose(50)


def test_features_are_knobs_on_a_log_scale() -> None:
    names = feature_names([ConvConfig(8, 16, 7), ConvConfig(8, 16, 14)])
    vector = dict(zip(names, feature_vector(ConvConfig(0, 15, 7), names), strict=True))
    assert vector["is:conv2d_NCHWc"] == 1.0
    assert (vector["ic_bn"], vector["oc_bn"], vector["reg_n"]) == (0.0, 4.0, 3.0)
    assert (vector["unroll_ker"], vector["parallel_oc"]) == (1.0, 0.0)


def test_a_space_of_two_templates_has_the_knobs_of_both() -> None:
    winograd = WinogradConfig(16, 16, 4, 7)
    names = feature_names([ConvConfig(8, 16, 7), winograd])
    vector = dict(zip(names, feature_vector(winograd, names), strict=True))
    assert vector["is:conv2d_NCHWc"] == 0.0
    assert vector["is:conv2d_NCHWc_winograd"] == 1.0
    assert math.isnan(vector["unroll_ker"])
