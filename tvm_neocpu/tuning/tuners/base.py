"""The interface of all tuners, and the order of untried configs that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

from tvm_neocpu.core.config import Config


class Tuner(Protocol):
    """Decides what to measure next; its caller measures and reports the result.

    A tuner proposes no config twice, and none after it was observed (as when a session resumes).
    In the end it has proposed the whole space.
    """

    def propose(self, count: int) -> list[Config]:
        """At most ``count`` configs to measure; none once the space is exhausted."""

    def observe(self, config: Config, seconds: float) -> None:
        """Take in a measurement; infinite seconds for a candidate that failed."""


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


def in_predicted_order(
    space: Iterable[Config], predicted: Callable[[Config], float]
) -> list[Config]:
    """Each config once, the cheapest prediction first.

    A prediction that is NaN, zero or negative counts as infinite.
    """

    def price(config: Config) -> float:
        seconds = predicted(config)
        return seconds if seconds > 0 else math.inf

    return sorted(dict.fromkeys(space), key=price)
