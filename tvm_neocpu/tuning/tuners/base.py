"""The one interface of all tuners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from tvm_neocpu.core.config import Config


class Tuner(Protocol):
    """Decides what to measure next; somebody else measures, and tells it.

    No config is proposed twice, nor after it was observed (as when a session resumes); in the end
    all of the space has been proposed.
    """

    def propose(self, count: int) -> list[Config]:
        """At most ``count`` configs to measure; none once the space is exhausted."""

    def observe(self, config: Config, seconds: float) -> None:
        """Hear a measurement; infinite seconds for a candidate that failed."""


class Untried:
    """The configs not yet proposed or observed, in order."""

    def __init__(self, configs: Iterable[Config]) -> None:
        self._left = dict.fromkeys(configs)

    def __iter__(self) -> Iterator[Config]:
        return iter(self._left)

    def __len__(self) -> int:
        return len(self._left)

    def discard(self, config: Config) -> None:
        self._left.pop(config, None)

    def take(self, count: int) -> list[Config]:
        """Remove and return the first ``count``."""
        taken = list(islice(self._left, max(0, count)))
        for config in taken:
            del self._left[config]
        return taken
