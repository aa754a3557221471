"""How a session divides its effort: which task is next, how much of it, and when it is enough."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.record import Record
from tvm_neocpu.tuning.search.progress import TaskResult
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners.base import Tuner

# A new best counts as an improvement from here; less is noise.
WORTHWHILE = 0.99


@dataclass(frozen=True)
class Limits:
    """What a session may spend; ``None`` is no limit.

    ``trials`` configs a task, ``total_trials`` over all, both counting those known from the log;
    ``seconds`` of time. A task ends early when ``patience`` batches of ``batch`` configs in a row
    did not make its best faster.
    """

    trials: int | None = None
    total_trials: int | None = None
    seconds: float | None = None
    batch: int = 16
    patience: int | None = 4

    def planned(self, space: int) -> int:
        """How many configs of a space of that size will at most be known."""
        caps = [cap for cap in (self.trials, self.total_trials) if cap is not None]
        return max(0, min([space, *caps]))


@dataclass
class TaskState:
    """A task in the course of a session; ``favourite`` is the cost model's best config.

    ``batches`` it has had, ``stale`` of them in a row in vain; ``done`` says why it ended.
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
        """Seconds of the network that the task stands for: measured, or else predicted."""
        best = self.result.best
        seconds = best.seconds if best else self.task.predicted(self.favourite)
        return self.task.occurrences * (seconds if seconds < math.inf else 0.0)

    @property
    def urgency(self) -> float:
        """Highest averages: tasks get batches in proportion to their weight."""
        return self.weight / (self.batches + 1)

    @property
    def left(self) -> int:
        """How many configs may still be measured."""
        return max(0, self.result.planned - self.result.known)

    def resume(self, record: Record) -> None:
        """Take into account what the log knows, were it more than is planned."""
        resumed = self.result.resumed + 1
        planned = max(self.result.planned, self.result.measured + resumed)
        self._learn(record, replace(self.result, resumed=resumed, planned=planned))

    def hear(self, record: Record, error: str) -> None:
        """Take a new measurement into account."""
        result = replace(self.result, measured=self.result.measured + 1)
        if not record.ok:
            result = replace(result, failed=result.failed + 1, error=error)
        self._learn(record, result)

    def end_batch(self, best_before: float, patience: int | None) -> None:
        """Count a batch, and whether it was in vain."""
        self.batches += 1
        improved = self.best_seconds < WORTHWHILE * best_before
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
    """The unfinished task to measure next; the first of equals."""
    unfinished = [state for state in states if not state.done]
    return max(unfinished, key=lambda state: state.urgency, default=None)


def affordable(wanted: int, seconds_left: float, seconds_each: float) -> int:
    """How many of ``wanted`` candidates fit into the time left: at least one."""
    if seconds_left == math.inf or seconds_each <= 0:
        return wanted
    return max(1, min(wanted, int(seconds_left / seconds_each)))
