"""Ctrl-C and SIGTERM both raise KeyboardInterrupt, delayed while a step must finish."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Inside ``with Interrupts():`` in the main thread, either signal raises KeyboardInterrupt.

    In another thread it does nothing: Python handles signals in the main thread only.
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
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt
        self._pending = True
