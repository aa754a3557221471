"""Ctrl-C and SIGTERM as one KeyboardInterrupt, kept waiting while something must be finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """In a ``with`` of the main thread, either signal raises KeyboardInterrupt there.

    In another thread, where Python lets nobody handle signals, it does nothing.
    """

    def __init__(self) -> None:
        self._previous: dict[signal.Signals, Any] = {}
        self._held = False
        self._pending = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            # None stands for a handler that was not Python's.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let what is inside finish; a signal that came meanwhile raises afterwards."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt
        self._pending = True
