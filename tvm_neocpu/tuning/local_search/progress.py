"""Progress of a tuning session: the interface, a silent version, and plain lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.display import PlainLines, clock_text


@dataclass(frozen=True)
class TaskResult:
    """One task so far, counted in configs.

    ``measured`` and ``failed`` (a part of ``measured``) are of this session, ``resumed`` come from
    the log. ``planned`` is the max number known in the end, ``error`` the text of the last failure.
    """

    name: str
    workload: Workload
    planned: int
    best: Record | None = None
    measured: int = 0
    failed: int = 0
    resumed: int = 0
    error: str = ""

    @property
    def known(self) -> int:
        return self.measured + self.resumed

    @property
    def gflops(self) -> float:
        return self.best.gflops if self.best else 0.0


@dataclass(frozen=True)
class TuningResult:
    """A session's outcome: ``interrupted`` by a signal, or ``out_of_time`` by its budget."""

    tasks: tuple[TaskResult, ...]
    seconds: float
    interrupted: bool = False
    out_of_time: bool = False

    @property
    def measured(self) -> int:
        return sum(task.measured for task in self.tasks)

    @property
    def failed(self) -> int:
        return sum(task.failed for task in self.tasks)

    @property
    def resumed(self) -> int:
        return sum(task.resumed for task in self.tasks)

    def __str__(self) -> str:
        how = "interrupted" if self.interrupted else "time is up" if self.out_of_time else "done"
        return (
            f"{how}: {self.measured} measured, {self.failed} of them failed, "
            f"{self.resumed} resumed from the log, {clock_text(self.seconds)}"
        )


class Progress(Protocol):
    """Is told what sessions do, one session after another; all calls come from one thread.

    A session's first call is ``begin``, its last ``end``. ``phase`` may come before ``begin``.
    """

    def phase(self, title: str) -> None:
        """Says the purpose of the next session, if it is not the tuning itself."""

    def begin(self, tasks: Sequence[TaskResult]) -> None:
        """The session starts; the log has been read."""

    def measured(self, task: TaskResult, record: Record, seconds_left: float | None) -> None:
        """One more candidate was measured and logged; ``task`` counts it already."""

    def task_done(self, task: TaskResult, why: str) -> None:
        """The task has ended; ``why`` says the reason."""

    def end(self, result: TuningResult) -> None:
        """The session is over, for whatever reason."""


class NoProgress:
    """Says nothing."""

    def phase(self, title: str) -> None:
        pass

    def begin(self, tasks: Sequence[TaskResult]) -> None:
        pass

    def measured(self, task: TaskResult, record: Record, seconds_left: float | None) -> None:
        pass

    def task_done(self, task: TaskResult, why: str) -> None:
        pass

    def end(self, result: TuningResult) -> None:
        pass


class PlainProgress(PlainLines):
    """One line for each finished task; in between, one every ``every`` seconds."""

    def __init__(self, stream: TextIO, every: float = 30.0) -> None:
        super().__init__(stream, every)

    def phase(self, title: str) -> None:
        self.say(title)

    def begin(self, tasks: Sequence[TaskResult]) -> None:
        resumed = sum(task.resumed for task in tasks)
        planned = sum(task.planned - task.known for task in tasks)
        known = f", {resumed} known from the log" if resumed else ""
        self.say(f"tuning {plural(len(tasks), 'task')}, at most {planned} candidates{known}")

    def measured(self, task: TaskResult, record: Record, seconds_left: float | None) -> None:
        if not self.is_due:
            return
        left = f", {clock_text(seconds_left)} left" if seconds_left is not None else ""
        self.say(f"{task_text(task)}, current {record.gflops:.1f}{left}")

    def task_done(self, task: TaskResult, why: str) -> None:
        self.say(f"{task_text(task)} ({why})")

    def end(self, result: TuningResult) -> None:
        self.say(str(result))


def task_text(task: TaskResult) -> str:
    """``conv2d 64x56x56->64 3x3 p1: 64/128, best 210.3 GFLOP/s (1.10 ms), 2 failed``."""
    failed = f", {task.failed} failed" if task.failed else ""
    why = f" ({last_line(task.error)})" if task.error and not task.best else ""
    return f"{task.name}: {task.known}/{task.planned}, {_best_text(task.best)}{failed}{why}"


def _best_text(best: Record | None) -> str:
    if best is None:
        return "none works"
    milliseconds = f"{best.seconds * 1e3:.3g} ms"
    # A layout transform has no floating-point operations.
    return f"best {best.gflops:.1f} GFLOP/s ({milliseconds})" if best.gflops else milliseconds


def last_line(error: str) -> str:
    """The last line of a traceback, its printable characters, max 160 of them."""
    lines = error.strip().splitlines() or [""]
    return "".join(c for c in lines[-1] if c.isprintable())[:160]
