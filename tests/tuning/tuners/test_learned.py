"""The default tuner: what one workload teaches, another knows; its promise fades as it learns."""

from __future__ import annotations

import math
from dataclasses import astuple
from itertools import product

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.tuners.learned import LearnedTuner, expected_improvement
from tvm_neocpu.tuning.tuners.ranker import ENOUGH, Ranker

SPACE = tuple(
    ConvConfig(ic_bn, oc_bn, reg_n, unroll)
    for ic_bn, oc_bn, reg_n, unroll in product(
        (8, 16, 32), (8, 16, 32), (2, 4, 7, 8, 14, 28), (True, False)
    )
)
WORKLOADS = [ConvWorkload(1, channels, 28, 28, 64, (3, 3)) for channels in (32, 64, 96)]


def predicted(config) -> float:
    return 1.0 / config.reg_n / config.oc_bn


def true_seconds(config) -> float:
    """Registers spill from reg_n = 8 on, of which the cost model knows nothing."""
    return 1e-3 * predicted(config) * (8.0 if config.reg_n >= 8 else 1.0)


def ranker() -> Ranker:
    return Ranker([(workload, SPACE) for workload in WORKLOADS])


def tuner(workload: ConvWorkload, shared: Ranker, favoured=()) -> LearnedTuner:
    return LearnedTuner(workload, SPACE, predicted, shared, favoured)


def test_what_one_workload_teaches_another_knows() -> None:
    shared = ranker()
    first = tuner(WORKLOADS[0], shared)
    for config in SPACE[::2]:
        first.observe(config, true_seconds(config))
    fresh = tuner(WORKLOADS[1], shared).propose(3)
    ignorant = tuner(WORKLOADS[1], ranker()).propose(3)
    assert all(config.reg_n < 8 for config in fresh)
    assert all(config.reg_n >= 8 for config in ignorant)


def test_the_promise_is_large_before_the_best_is_found_and_small_after() -> None:
    shared = ranker()
    learner = tuner(WORKLOADS[0], shared)
    slow = [config for config in SPACE if config.reg_n >= 8]
    for config in slow[:ENOUGH] + [config for config in SPACE if config.reg_n == 2]:
        learner.observe(config, true_seconds(config))
    before = learner.promise()
    for config in learner.propose(12):
        learner.observe(config, true_seconds(config))
    assert before > 0.2
    assert learner.promise() < before / 10


def test_a_failure_teaches_nothing_and_is_not_proposed_again() -> None:
    shared = ranker()
    learner = tuner(WORKLOADS[0], shared)
    (first,) = learner.propose(1)
    learner.observe(first, math.inf)
    assert first not in learner.propose(len(SPACE))
    assert shared.sigma > 0


def test_favoured_configs_come_first() -> None:
    favoured = [config for config in SPACE if config.oc_bn == 8]
    learner = tuner(WORKLOADS[0], ranker(), favoured)
    assert set(learner.propose(len(SPACE))) == set(favoured)
    for config in favoured:
        learner.observe(config, true_seconds(config))
    assert set(learner.propose(len(SPACE))) == set(SPACE) - set(favoured)


def test_guesses_are_less_sure_of_what_is_less_like_the_measured() -> None:
    shared = ranker()
    (near, *_), features = SPACE, shared.features(WORKLOADS[0], SPACE, [1.0] * len(SPACE))
    assert shared.distances(WORKLOADS[0], features).tolist() == [1.0] * len(SPACE)
    for config in SPACE[:2] * ENOUGH:
        shared.learn(WORKLOADS[0], config, 1.0, 1.0)

    def apart(one: ConvConfig, other: ConvConfig) -> int:
        return sum(a != b for a, b in zip(astuple(one), astuple(other), strict=True))

    differ = [min(apart(config, known) for known in SPACE[:2]) for config in SPACE]
    assert shared.distances(WORKLOADS[0], features).tolist() == [max(1, count) for count in differ]
    spreads = dict(zip(SPACE, shared.spreads(WORKLOADS[0], features), strict=True))
    assert spreads[near] == shared.sigma < spreads[SPACE[-1]]
    # Another workload's measurements say nothing of how near these are.
    assert set(shared.distances(WORKLOADS[1], features)) == {1.0}


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_nonsense_is_not_learned(seconds: float) -> None:
    shared = ranker()
    shared.learn(WORKLOADS[0], SPACE[0], 1.0, seconds)
    features = shared.features(WORKLOADS[0], SPACE[:2], [1.0, 2.0])
    assert shared.errors(WORKLOADS[0], features).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("gain", [-3.0, -0.2, 0.0, 0.1, 2.0])
@pytest.mark.parametrize("sigma", [0.01, 0.3])
def test_the_expected_improvement_is_that_of_a_normal_variable(gain: float, sigma: float) -> None:
    normal = norm(gain, sigma)
    expected, _ = quad(lambda x: x * normal.pdf(x), 0, gain + 12 * sigma) if gain > -1 else (0, 0)
    assert expected_improvement(gain, sigma) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert expected_improvement(gain, sigma) >= 0
