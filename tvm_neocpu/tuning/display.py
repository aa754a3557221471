"""What the displays of all sessions share: plain lines, the clock, terminal or not."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console

# Drawing takes a core for some milliseconds: often, it would disturb the timing.
DRAWS_PER_SECOND = 1


class PlainLines:
    """Lines without control characters, for files and pipes; a line is due ``every`` so often."""

    def __init__(self, stream: TextIO, every: float) -> None:
        self._stream = stream
        self._every = every
        self._spoke = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether nothing was said for so long that a reader wants to know where it is."""
        return time.monotonic() - self._spoke >= self._every

    def say(self, text: str) -> None:
        """One line, at once."""
        self._stream.write(text + "\n")
        self._stream.flush()
        self._spoke = time.monotonic()


def terminal_on(stream: TextIO) -> Console | None:
    """The stream as a terminal; ``None`` for a file or a pipe."""
    console = Console(file=stream)
    return console if console.is_terminal else None


def clock_text(seconds: float) -> str:
    """``75.2`` -> ``"1:15"``, ``3723`` -> ``"1:02:03"``; nothing is below ``"0:00"``."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
