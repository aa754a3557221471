"""Sessions replayed from an exhaustive log: who finds the best config, after how many measurements?

The log holds the candidates of five depthwise layers of MobileNet-v2, timed inside the network on
one thread of a Zen 3 (AMD EPYC Milan), other processes stopped; `benchmarks/exhaustive_layers.py`
wrote it in two runs. The younger one has all 1118 that the cost model predicts below 2.8 times the
best prediction, the older one the others but for 49, which nobody timed. Where both timed a
candidate, the medians of their ratios are 1.01 to 1.10: the clock and the templates had changed.
The network that is replayed has these layers alone: in MobileNet-v2 each takes 1 % of the
time or less, so that a session expects too little of most of them to measure anything.
"""

from __future__ import annotations

import lzma
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from tests.support.cpus import ZEN_3
from tvm_neocpu.core.config import Config
from tvm_neocpu.tuning.database.log import load_log
from tvm_neocpu.tuning.in_network.board import Board, Seat
from tvm_neocpu.tuning.in_network.ratios import FLOOR, Ratio
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tasks import task_of
from tvm_neocpu.tuning.tuners import TUNERS

LOG = Path(__file__).parent / "assets" / "exhaustive_mobilenet_v2_znver3.log.xz"
# How often MobileNet-v2 has each of them.
OCCURRENCES = (2, 4, 2, 3, 1)
# Good enough: this share of the best config's speed.
ENOUGH = 0.97
# Measurements that a session of 300 s has for each layer of MobileNet-v2, at five a second.
BUDGET = 40
SEEDS = 12
# A candidate may be the best if the cost model predicts this many times the best prediction.
NEAR = 1.5

Times = Mapping[Config, float]


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Task, Times]]:
    """Each layer with the seconds of all its candidates.

    A replay knows the times of the log and no others: a tuner that proposed a candidate without a
    time could not be answered. So the candidates are those of the log, not those of the template,
    which may gain some. How much of today's space the log still has is a test of its own.
    """
    path = tmp_path_factory.mktemp("replay") / "exhaustive.log"
    path.write_bytes(lzma.decompress(LOG.read_bytes()))
    found: dict[object, dict[Config, float]] = defaultdict(dict)
    for record in load_log(path).records:
        found[record.workload][record.config] = record.seconds
    tasks = [task_of(workload, ZEN_3, n) for workload, n in zip(found, OCCURRENCES, strict=True)]
    return [
        (
            replace(
                task,
                space=tuple(times),
                favoured=tuple(config for config in task.favoured if config in times),
            ),
            times,
        )
        for task in tasks
        if (times := found[task.workload])
    ]


class Replay:
    """A session whose measurements are those of the log; ``best`` are its layers' best seconds."""

    def __init__(self, layers: list[tuple[Task, Times]], tuner: str, seed: int = 0) -> None:
        tasks = [task for task, _ in layers]
        make = TUNERS[tuner](tasks, seed)
        self.times = {task.workload: times for task, times in layers}
        incumbents = {task.workload: middling(self.times[task.workload]) for task in tasks}
        seconds = {w: self.times[w][config] for w, config in incumbents.items()}
        network = sum(task.occurrences * seconds[task.workload] for task in tasks)
        seats = {}
        for task in tasks:
            workload, tuner = task.workload, make(task)
            weight = task.occurrences * seconds[workload] / network
            incumbent = frozenset([incumbents[workload]])
            seats[workload] = Seat(task, tuner, incumbent, seconds[workload], weight)
            tuner.observe(incumbents[workload], seconds[workload])
        self.board = Board(seats, network)

    def share(self, seat: Seat) -> float:
        """How fast the best config is that was measured, over the best there is; 1 is the best."""
        times = self.times[seat.workload]
        tried = [*seat.incumbent, *seat.estimates]
        return min(times.values()) / min(times[config] for config in tried)

    def measure(self, seat: Seat) -> None:
        """The next candidate of one layer."""
        config = seat.wishes(1)[0]
        seconds = self.times[seat.workload][config]
        seat.hear(config, Ratio(math.log(seconds / seat.seconds), FLOOR))


def middling(times: Times) -> Config:
    """The config in the middle: an untuned build takes a better one, which leaves little to do."""
    return sorted(times, key=lambda config: times[config])[len(times) // 2]


def needed(layers: list[tuple[Task, Times]], tuner: str, seed: int = 0) -> int:
    """Measurements from nothing until every layer is good enough; each layer has its turn."""
    make = TUNERS[tuner]([task for task, _ in layers], seed)
    tuners = {task: make(task) for task, _ in layers}
    best, count = dict.fromkeys(tuners, math.inf), 0
    while todo := [(t, times) for t, times in layers if best[t] > min(times.values()) / ENOUGH]:
        for task, times in todo:
            (config,) = tuners[task].propose(1)
            tuners[task].observe(config, times[config])
            best[task] = min(best[task], times[config])
            count += 1
    return count


def test_the_log_is_exhaustive(layers) -> None:
    for task, times in layers:
        today = task_of(task.workload, ZEN_3)
        # Spaces may grow or shrink with the templates; most of each must be known, and all that
        # could be the best.
        assert len(times.keys() & set(today.space)) >= 0.9 * len(today.space)
        limit = NEAR * min(map(today.predicted, today.space))
        assert {config for config in today.space if today.predicted(config) <= limit} <= set(times)
    assert sum(len(times) for _, times in layers) == 1479


def test_the_default_tuner_needs_at_most_a_quarter_of_what_random_needs(layers) -> None:
    default = next(iter(TUNERS))
    random = fmean(needed(layers, "random", seed) for seed in range(SEEDS))
    assert needed(layers, default) <= random / 4


def test_a_budget_finds_the_best_within_three_percent_and_then_stops(layers) -> None:
    replay = Replay(layers, next(iter(TUNERS)))
    while open_ := replay.board.open:
        for seat in open_:
            replay.measure(seat)
    for seat in replay.board.seats.values():
        assert len(seat.estimates) <= BUDGET
        assert replay.share(seat) >= ENOUGH
        assert seat.best <= 1.0
