"""Evolution: children combine what their parents have."""

from __future__ import annotations

import math

from tvm_neocpu.tuning.tuners.genetic import GeneticTuner


def test_children_of_the_best_come_before_the_rest(space) -> None:
    def true_seconds(config) -> float:
        return 1.0 + abs(config.ic_bn - 16) + abs(config.oc_bn - 32) + config.reg_n

    tuner = GeneticTuner(space, lambda config: 1.0)
    for config in space[::3]:
        tuner.observe(config, true_seconds(config))
    left = [config for config in space if config not in space[::3]]
    found = [true_seconds(config) for config in tuner.propose(4)]
    every = [true_seconds(config) for config in left]
    assert sum(found) / len(found) < sum(every) / len(every)


def test_failures_have_no_children(space) -> None:
    tuner = GeneticTuner(space, lambda config: 1.0)
    for config in space[:6]:
        tuner.observe(config, math.inf)
    assert tuner.propose(3) == list(space[6:9])
