"""Warnings of logs, once for each text, and those that wait until it is known whether they hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tvm_neocpu.tuning.database.log import TuningLogWarning


class Warner:
    """Warns once for each text: a build asks a history several times."""

    def __init__(self) -> None:
        self._warned: set[str] = set()
        self._waiting: list[list[str]] = []

    def __call__(self, text: str) -> None:
        """Warn, or keep the text while warnings wait."""
        if self._waiting:
            self._waiting[-1].append(text)
        elif text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, TuningLogWarning, stacklevel=5)

    @contextmanager
    def waiting(self) -> Iterator[Callable[[], None]]:
        """No warning inside. The function that it gives warns of all that would have been."""
        texts: list[str] = []

        def tell() -> None:
            for text in list(texts):
                self(text)

        self._waiting.append(texts)
        try:
            yield tell
        finally:
            self._waiting = [each for each in self._waiting if each is not texts]
