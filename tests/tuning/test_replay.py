"""Sessions replayed from exhaustive logs: who finds the best config, after how many measurements?

`benchmarks/layers/exhaustive_layers.py` wrote both logs, on one thread, other processes stopped.

MobileNet-v2, five depthwise layers, Zen 3 (AMD EPYC Milan), in two runs. The younger one has all
1118 candidates that the cost model predicts below 2.8 times the best prediction, the older one the
others but for 49, which nobody timed. Where both timed a candidate, the medians of their ratios are
1.01 to 1.10: the clock and the templates had changed. The network that is replayed has these layers
alone: in MobileNet-v2 each takes 1 % of the time or less, so that a session expects too little of
most of them to measure anything.

ResNet-50, four 3x3 layers and the first one, Zen 4 (AMD EPYC Genoa). Their spaces have thousands of
candidates: timed were all that the cost model predicted at most 1.1 times its best, and 40 of the
others of each layer, drawn by lot, of which none was faster. The ten leaders of each layer were
read twice, and the later reading counts. Winograd's prices have changed since, so that five
candidates of today are not known.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from tests.support.cpus import ZEN_3, ZEN_4
from tests.support.replays import (
    ENOUGH,
    GuessedTimes,
    Layers,
    Recorded,
    Replay,
    favourite,
    middling,
    needed,
    needed_at_random,
)
from tvm_neocpu.tuning.tasks import task_of
from tvm_neocpu.tuning.tuners import TUNERS

ASSETS = Path(__file__).parent / "assets"
RECORDED = {
    "mobilenet_v2": Recorded(
        ASSETS / "exhaustive_mobilenet_v2_znver3.log.xz", ZEN_3, (2, 4, 2, 3, 1), 1.5, whole=True
    ),
    "resnet50": Recorded(
        ASSETS / "exhaustive_resnet50_znver4.log.xz",
        ZEN_4,
        (5, 2, 3, 3, 1),
        1.1,
        whole=False,
    ),
}
COUNTS = {"mobilenet_v2": 1479, "resnet50": 676}
# Measurements that a session of 300 s has for each layer of MobileNet-v2, at five a second.
BUDGET = 40
ENOUGH_OF_ONE = 0.95
# From an untuned build a session ends this near to the best.
NEARLY_THE_BEST = 0.985
# Measurements until every layer is within 3 % of its best: 49 and 25, and some for other trees. In
# the cost model's order it takes 85 and 89.
STRAIGHT = {"mobilenet_v2": 55, "resnet50": 35}
SEEDS = 12


@pytest.fixture(scope="module", params=RECORDED)
def network(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def layers(network: str, tmp_path_factory: pytest.TempPathFactory) -> Layers:
    """Each layer with the seconds of its candidates."""
    return RECORDED[network].layers(tmp_path_factory.mktemp("replay"))


def test_the_log_is_exhaustive(network: str, layers: Layers) -> None:
    recorded = RECORDED[network]
    for task, times in layers:
        today = task_of(task.workload, recorded.cpu)
        predicted = {config: today.predicted(config) for config in today.space}
        limit = recorded.near * min(predicted.values())
        near = {config for config, seconds in predicted.items() if seconds <= limit}
        # Spaces may grow or shrink with the templates; most of each must be known, and all that
        # could be the best.
        if recorded.whole:
            assert len(times.keys() & set(today.space)) >= 0.9 * len(today.space)
        assert not near - times.keys()
    assert sum(len(times) for _, times in layers) == COUNTS[network]


def test_the_default_tuner_needs_at_most_a_quarter_of_what_random_needs(layers: Layers) -> None:
    default = next(iter(TUNERS))
    assert needed(layers, default) <= needed_at_random(layers) / 4


def test_random_needs_what_chance_says(layers: Layers, network: str) -> None:
    if not RECORDED[network].whole:
        layers = [(replace(task, space=tuple(times)), times) for task, times in layers]
    random = fmean(needed(layers, "random", seed) for seed in range(SEEDS))
    assert random == pytest.approx(needed_at_random(layers), rel=0.4)


def test_the_default_tuner_goes_straight_to_good_candidates(layers: Layers, network: str) -> None:
    assert needed(layers, next(iter(TUNERS))) <= STRAIGHT[network]


def test_a_budget_finds_the_best_within_three_percent_and_then_stops(layers: Layers) -> None:
    """All layers together. One alone may be 5 % off: the best of many readings is too good."""
    replay = Replay(layers, next(iter(TUNERS)), middling)
    replay.play()
    for seat in replay.board.seats.values():
        assert len(seat.estimates) <= BUDGET
        assert replay.share(seat) >= ENOUGH_OF_ONE
        assert seat.best <= 1.0
    assert replay.share_of_all >= ENOUGH


def test_a_session_that_starts_from_an_untuned_build_is_not_settled_early(layers: Layers) -> None:
    """What it starts from is good already, so that few candidates look better."""
    replay = Replay(layers, next(iter(TUNERS)), favourite)
    replay.play()
    assert replay.share_of_all >= NEARLY_THE_BEST


def test_what_was_not_timed_takes_its_prediction_times_the_error_of_the_drawn() -> None:
    task = Namespace(predicted={"best": 1.0, "near": 1.1, "far": 2.0, "farther": 4.0}.get)
    times = GuessedTimes(task, {"best": 9.0, "far": 3.0}, limit=1.1)
    assert times["best"] == 9.0
    assert times["farther"] == 6.0
    assert set(times) == {"best", "far"}
