"""What a session shows while it runs: lines for a pipe, one live line for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console
from rich.status import Status

from tvm_neocpu.tuning.display import DRAWS_PER_SECOND, PlainLines, clock_text, terminal_on

# A line every so often, where nobody watches.
QUIET_SECONDS = 15.0


@dataclass(frozen=True)
class State:
    """Where a session stands; all times in seconds.

    ``gain`` is the share of ``network`` that confirmed candidates save, before the layouts of
    neighbours are reconciled. ``about`` are the layers being measured, the most hopeful first.
    """

    network: float
    gain: float
    measured: int
    failed: int
    open: int
    settled: int
    spent: float
    left: float | None
    about: tuple[str, ...] = ()

    def __str__(self) -> str:
        milliseconds = 1e3 * self.network
        gain = f"{milliseconds * self.gain:.2f} ms of {milliseconds:.2f} found"
        failed = f", {self.failed} failed" if self.failed else ""
        left = "" if self.left is None else f", {clock_text(self.left)} left"
        pace = self.measured / self.spent if self.spent else 0.0
        return (
            f"{gain}; {self.measured} candidates ({pace:.1f}/s){failed}; "
            f"{self.settled} of {self.settled + self.open} layers settled{left}"
        )


class Progress(Protocol):
    """Is told what a session does; all calls come from one thread."""

    def say(self, text: str) -> None:
        """One line that stays."""

    def update(self, state: State) -> None:
        """The session has gone on."""

    def close(self) -> None:
        """The session is over, for whatever reason."""


class NoProgress:
    """Says nothing."""

    def say(self, text: str) -> None:
        pass

    def update(self, state: State) -> None:
        pass

    def close(self) -> None:
        pass


class PlainProgress(PlainLines):
    """Lines for files and pipes."""

    def __init__(self, stream: TextIO, every: float = QUIET_SECONDS) -> None:
        super().__init__(stream, every)

    def update(self, state: State) -> None:
        if self.is_due:
            self.say(f"  {state}")

    def close(self) -> None:
        pass


class TerminalProgress:
    """A live line with what is being measured below it; rich draws it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("", console=console, refresh_per_second=DRAWS_PER_SECOND)

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def update(self, state: State) -> None:
        about = f"\n  measuring {', '.join(state.about[:3])}" if state.about else ""
        self._status.update(f"{state}{about}")
        self._status.start()

    def close(self) -> None:
        self._status.stop()


def progress_for(stream: TextIO) -> Progress:
    """A live line if the stream is a terminal, else plain lines."""
    console = terminal_on(stream)
    return PlainProgress(stream) if console is None else TerminalProgress(console)
