"""Sessions whose measurements come from an exhaustive log: the same each time, on any machine."""

from __future__ import annotations

import lzma
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.tuning.database.log import load_log
from tvm_neocpu.tuning.in_network.ratios import FLOOR, Ratio
from tvm_neocpu.tuning.in_network.rounds.board import Board, Seat
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tasks import task_of
from tvm_neocpu.tuning.tuners import TUNERS, Tuner

# Good enough: this share of the best config's speed.
ENOUGH = 0.97

Times = dict[Config, float]
Layers = list[tuple[Task, Times]]


class GuessedTimes(dict[Config, float]):
    """Seconds of the candidates that were timed; others take what the cost model predicts, times
    the median error of those that were drawn by lot from beyond ``limit`` seconds."""

    def __init__(self, task: Task, seconds: dict[Config, float], limit: float) -> None:
        super().__init__(seconds)
        self._task = task
        predicted = {config: task.predicted(config) for config in seconds}
        self._factor = median(
            seconds[config] / predicted[config] for config in seconds if predicted[config] > limit
        )

    def __missing__(self, config: Config) -> float:
        return self._factor * self._task.predicted(config)


@dataclass(frozen=True)
class Recorded:
    """An exhaustive log of some layers, and how often their network has each of them.

    It has all candidates that the cost model predicts at most ``near`` times its best. Of the
    others it has nearly all with ``whole``, so that a replay knows no other candidates; else a
    sample, and a replay guesses the times of those that were not drawn.
    """

    log: Path
    cpu: Cpu
    occurrences: tuple[int, ...]
    near: float
    whole: bool

    def layers(self, folder: Path) -> Layers:
        """Each layer with the seconds of its candidates; ``folder`` is for the log as text."""
        path = folder / "exhaustive.log"
        path.write_bytes(lzma.decompress(self.log.read_bytes()))
        found: dict[object, dict[Config, float]] = defaultdict(dict)
        for record in load_log(path).records:
            if record.ok:
                found[record.workload][record.config] = record.seconds
        counts = zip(found, self.occurrences, strict=True)
        tasks = [task_of(workload, self.cpu, count) for workload, count in counts]
        return [self._known(task, found[task.workload]) for task in tasks]

    def limit(self, task: Task) -> float:
        """The longest predicted seconds of a candidate that the log must have."""
        return self.near * min(map(task.predicted, task.space))

    def _known(self, task: Task, seconds: dict[Config, float]) -> tuple[Task, dict[Config, float]]:
        if not self.whole:
            return task, GuessedTimes(task, seconds, self.limit(task))
        favoured = tuple(config for config in task.favoured if config in seconds)
        return replace(task, space=tuple(seconds), favoured=favoured), seconds


class Replay:
    """A session whose measurements are those of the log, from what ``start`` takes of each layer's
    task and times."""

    def __init__(
        self, layers: Layers, tuner: str, start: Callable[[Task, Times], Config], seed: int = 0
    ) -> None:
        tasks = [task for task, _ in layers]
        make = TUNERS[tuner](tasks, seed)
        self.times = {task.workload: times for task, times in layers}
        incumbents = {task.workload: start(task, self.times[task.workload]) for task in tasks}
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
        """How fast the best config is that was measured, over the best there is; 1 is the best.

        One whose time is guessed is none that was found.
        """
        times = self.times[seat.workload]
        tried = {*seat.incumbent, *seat.estimates} & times.keys()
        return min(times.values()) / min(times[config] for config in tried)

    def play(self) -> None:
        """Measure until every layer is settled, each in its turn."""
        while open_ := self.board.open:
            for seat in open_:
                self.measure(seat)

    @property
    def share_of_all(self) -> float:
        """How fast the layers are together with what was found, over the best there is."""
        best = found = 0.0
        for seat in self.board.seats.values():
            layer = seat.task.occurrences * min(self.times[seat.workload].values())
            best += layer
            found += layer / self.share(seat)
        return best / found

    def measure(self, seat: Seat) -> None:
        """The next candidate of one layer."""
        config = seat.wishes(1)[0]
        seconds = self.times[seat.workload][config]
        seat.hear(config, Ratio(math.log(seconds / seat.seconds), FLOOR))


def middling(_task: Task, times: Times) -> Config:
    """The config in the middle: an untuned build takes a better one, which leaves little to do."""
    return sorted(times, key=lambda config: times[config])[len(times) // 2]


def favourite(task: Task, times: Times) -> Config:
    """What the cost model prefers of those that were timed, as an untuned build does."""
    return min(times, key=task.predicted)


class _Found:
    """What a tuner has found of one layer."""

    def __init__(self, tuner: Tuner, times: Times) -> None:
        self._tuner, self._times = tuner, times
        self._best, self._enough = math.inf, min(times.values()) / ENOUGH

    @property
    def is_enough(self) -> bool:
        return self._best <= self._enough

    def measure(self) -> None:
        """The tuner's next candidate."""
        (config,) = self._tuner.propose(1)
        seconds = self._times[config]
        self._tuner.observe(config, seconds)
        self._best = min(self._best, seconds)


def needed(layers: Layers, tuner: str, seed: int = 0) -> int:
    """Measurements from nothing until every layer is good enough; each layer has its turn."""
    make = TUNERS[tuner]([task for task, _ in layers], seed)
    found = [_Found(make(task), times) for task, times in layers]
    count = 0
    while todo := [each for each in found if not each.is_enough]:
        for each in todo:
            each.measure()
        count += len(todo)
    return count


def needed_at_random(layers: Layers) -> float:
    """What :func:`needed` is on average for candidates drawn by lot, none twice.

    The first of k good ones among n comes after (n + 1) / (k + 1) draws. Good ones that nobody
    timed are not counted.
    """
    total = 0.0
    for task, times in layers:
        good = sum(seconds <= min(times.values()) / ENOUGH for seconds in times.values())
        total += (len(task.space) + 1) / (good + 1)
    return total
