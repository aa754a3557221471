"""The budget of a tuning session: which task is next, how many configs of it, when to stop."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.tuning.local_search.progress import TaskResult
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners.base import Tuner

# A new best is an improvement if it takes less than this share of the old best; else it is noise.
IMPROVED = 0.99


@dataclass(frozen=True)
class Limits:
    """The max effort of a session; ``None`` means no limit.

    ``trials`` is per task, ``total_trials`` over all tasks; both include configs known from the
    log. ``seconds`` is for the whole session. A batch has at most ``batch`` configs; a task ends
    early when ``patience`` batches in a row bring no improvement.
    """

    trials: int | None = None
    total_trials: int | None = None
    seconds: float | None = None
    batch: int = 16
    patience: int | None = 4

    def planned(self, space: int) -> int:
        """Max number of known configs of a task whose space has ``space`` configs."""
        caps = [cap for cap in (self.trials, self.total_trials) if cap is not None]
        return max(0, min([space, *caps]))


@dataclass
class TaskState:
    """A task in the course of a session.

    ``favourite`` is the cost model's best config, ``known`` the configs measured or resumed,
    ``stale`` the number of latest batches in a row without an improvement. ``done`` says why the
    task ended; it is empty before.
    """

    task: Task
    tuner: Tuner
    favourite: Config
    result: TaskResult
    known: set[Config] = field(default_factory=set)
    batches: int = 0
    stale: int = 0
    done: str = ""

    @property
    def weight(self) -> float:
        """The task's share of the network in seconds: measured, else predicted."""
        best = self.result.best
        seconds = best.seconds if best else self.task.predicted(self.favourite)
        return self.task.occurrences * (seconds if seconds < math.inf else 0.0)

    @property
    def urgency(self) -> float:
        """Weight / (batches + 1): tasks get batches in proportion to weight (highest averages)."""
        return self.weight / (self.batches + 1)

    @property
    def left(self) -> int:
        """How many configs may still be measured."""
        return max(0, self.result.planned - self.result.known)

    def resume(self, record: Record) -> None:
        """Take in a record of the log; known configs may exceed the plan, which grows with them."""
        resumed = self.result.resumed + 1
        planned = max(self.result.planned, self.result.measured + resumed)
        self._learn(record, replace(self.result, resumed=resumed, planned=planned))

    def hear(self, record: Record, error: str) -> None:
        """Take in a new measurement; ``error`` is the text of its failure."""
        result = replace(self.result, measured=self.result.measured + 1)
        if not record.ok:
            result = replace(result, failed=result.failed + 1, error=error)
        self._learn(record, result)

    def end_batch(self, best_before: float, patience: int | None) -> None:
        """Count a batch; end the task after ``patience`` batches without an improvement."""
        self.batches += 1
        improved = self.best_seconds < IMPROVED * best_before
        self.stale = 0 if improved else self.stale + 1
        if patience is not None and self.stale >= patience:
            self.done = f"no better in {self.stale} batches"

    @property
    def best_seconds(self) -> float:
        return self.result.best.seconds if self.result.best else math.inf

    def _learn(self, record: Record, result: TaskResult) -> None:
        better = record.seconds < self.best_seconds
        self.result = replace(result, best=record) if better else result
        self.known.add(record.config)
        self.tuner.observe(record.config, record.seconds)


def most_urgent(states: Iterable[TaskState]) -> TaskState | None:
    """The unfinished task to measure next, the first one of several with equal urgency."""
    unfinished = [state for state in states if not state.done]
    return max(unfinished, key=lambda state: state.urgency, default=None)


def affordable(wanted: int, seconds_left: float, seconds_each: float) -> int:
    """How many of ``wanted`` candidates fit into the time left; min 1."""
    if seconds_left == math.inf or seconds_each <= 0:
        return wanted
    return max(1, min(wanted, int(seconds_left / seconds_each)))
