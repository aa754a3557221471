"""Progress on a terminal, drawn by rich; ``progress_for`` chooses the display for a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich import progress as bars
from rich.console import Console
from rich.markup import escape

from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.tuning.display import DRAWS_PER_SECOND, clock_text, terminal_on
from tvm_neocpu.tuning.local_search.progress import (
    PlainProgress,
    Progress,
    TaskResult,
    TuningResult,
    task_text,
)


class TerminalProgress:
    """One bar over all candidates with the current task; a line above it for each finished task."""

    def __init__(self, console: Console) -> None:
        self._bars = bars.Progress(
            bars.TextColumn("{task.fields[state]}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.fields[left]}"),
            console=console,
            refresh_per_second=DRAWS_PER_SECOND,
            transient=True,
        )
        self._bar: bars.TaskID | None = None
        self._total = 0

    def phase(self, title: str) -> None:
        self._bars.console.print(escape(title), highlight=False)

    def begin(self, tasks: Sequence[TaskResult]) -> None:
        self._total = sum(task.planned for task in tasks)
        known = sum(task.known for task in tasks)
        state = f"tuning {plural(len(tasks), 'task')}"
        self._bar = self._bars.add_task(
            "", total=self._total, completed=known, state=state, left=""
        )
        self._bars.start()

    def measured(self, task: TaskResult, record: Record, seconds_left: float | None) -> None:
        if self._bar is None:
            return
        failed = f" [red]{task.failed} failed[/]" if task.failed else ""
        state = (
            f"[bold]{escape(task.name)}[/] best [green]{_speed(task.best)}[/] "
            f"now {_speed(record)}{failed}"
        )
        left = f"{clock_text(seconds_left)} left" if seconds_left is not None else ""
        self._bars.update(self._bar, advance=1, state=state, left=left)

    def task_done(self, task: TaskResult, why: str) -> None:
        self._bars.console.print(escape(f"{task_text(task)} ({why})"), highlight=False)
        if self._bar is not None:
            # The candidates that the task did not need leave the total.
            self._total -= task.planned - task.known
            self._bars.update(self._bar, total=self._total)

    def end(self, result: TuningResult) -> None:
        self._bars.stop()
        if self._bar is not None:
            # The next session draws its own bar.
            self._bars.remove_task(self._bar)
            self._bar = None
        self._bars.console.print(escape(str(result)), highlight=False)


def _speed(record: Record | None) -> str:
    if record is None or not record.ok:
        return "failed"
    # A layout transform has no floating-point operations.
    return f"{record.gflops:.1f} GFLOP/s" if record.gflops else f"{record.seconds * 1e3:.3g} ms"


def progress_for(stream: TextIO) -> Progress:
    """A live bar if the stream is a terminal, else plain lines."""
    console = terminal_on(stream)
    return PlainProgress(stream) if console is None else TerminalProgress(console)
