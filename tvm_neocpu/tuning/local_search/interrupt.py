"""Ctrl-C and SIGTERM both raise KeyboardInterrupt, delayed while a step must finish."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds in which a signal is the same one again: the first may be ending processes, and must not
# be interrupted there.
SAME_SECONDS = 3.0


class Interrupts:
    """Inside ``with Interrupts():`` in the main thread, either signal raises KeyboardInterrupt.

    Another one soon after it is ignored: what the first one ends, it ends. In another thread it
    does nothing: Python handles signals in the main thread only.
    """

    def __init__(self) -> None:
        self._previous: dict[signal.Signals, Any] = {}
        self._held = False
        self._pending = False
        self._raised = -math.inf

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            # None means that the previous handler was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Finish the block first; a signal that arrives inside it raises at its end."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._pending:
            self._pending = False
            self._raise()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._raised <= SAME_SECONDS:
            return
        if self._held:
            self._pending = True
        else:
            self._raise()

    def _raise(self) -> None:
        self._raised = time.monotonic()
        raise KeyboardInterrupt
