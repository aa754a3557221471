"""The conformance suite: what every tuner must do."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners import TUNERS


@pytest.fixture(params=sorted(TUNERS))
def make_tuner(request, make_task):
    """Makes the tuner under test for a space."""

    def make(space=None, seed=7):
        task: Task = make_task() if space is None else make_task(space=space)
        return TUNERS[request.param]([task], seed)(task)

    return make


def true_seconds(config) -> float:
    """Times that differ from the cost model's; narrow output blocks fail."""
    return math.inf if config.oc_bn == 8 else 1e-3 * (1 + abs(config.reg_n - config.ic_bn))


def drain(tuner, batch: int) -> list:
    proposed = []
    while configs := tuner.propose(batch):
        assert len(configs) <= batch
        proposed += configs
        for config in configs:
            tuner.observe(config, true_seconds(config))
    return proposed


@pytest.mark.parametrize("batch", [1, 5, 100])
def test_it_proposes_the_whole_space_each_config_once(make_tuner, space, batch) -> None:
    proposed = drain(make_tuner(), batch)
    assert len(proposed) == len(space)
    assert set(proposed) == set(space)


def test_proposals_stay_until_they_are_observed(make_tuner, space) -> None:
    tuner = make_tuner()
    first = tuner.propose(100)
    assert set(first) == set(space)
    tuner.observe(first[0], true_seconds(first[0]))
    assert set(tuner.propose(100)) == set(space) - {first[0]}


def test_asking_twice_gives_one_answer(make_tuner, space) -> None:
    tuner = make_tuner()
    for config in space[:8]:
        tuner.observe(config, true_seconds(config))
    assert len(set(tuner.propose(5))) == 5
    promise = tuner.promise()
    assert tuner.promise() == promise >= 0


def test_nothing_left_promises_nothing(make_tuner) -> None:
    tuner = make_tuner()
    assert tuner.promise() > 0
    drain(tuner, 7)
    assert tuner.promise() == 0


def test_observed_configs_are_not_proposed(make_tuner, space) -> None:
    tuner = make_tuner()
    for config in space[:20]:
        tuner.observe(config, true_seconds(config))
    assert set(drain(tuner, 3)) == set(space[20:])


def test_equal_seeds_propose_alike(make_tuner) -> None:
    assert drain(make_tuner(seed=3), 4) == drain(make_tuner(seed=3), 4)


def test_a_space_where_everything_fails_is_exhausted(make_tuner, space) -> None:
    tuner = make_tuner()
    proposed = []
    while configs := tuner.propose(5):
        proposed += configs
        for config in configs:
            tuner.observe(config, math.inf)
    assert set(proposed) == set(space)


def test_an_empty_space_proposes_nothing(make_tuner) -> None:
    assert make_tuner(space=()).propose(4) == []


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_wanted_nothing_proposed(make_tuner, space, count) -> None:
    tuner = make_tuner()
    assert tuner.propose(count) == []
    assert set(drain(tuner, 50)) == set(space)


def test_repeated_configs_count_once(make_tuner, space) -> None:
    assert len(drain(make_tuner(space=space[:3] * 2), 2)) == 3


def test_an_observation_from_outside_the_space_is_harmless(make_tuner, space) -> None:
    tuner = make_tuner(space=space[1:])
    tuner.observe(space[0], 1e-3)
    assert set(drain(tuner, 7)) == set(space[1:])
