"""The interface of all tuners, and the order of untried configs that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol

from tvm_neocpu.core.network.config import Config

# What an untried config may save at first, as a share of the workload's time, and what is left of
# that hope after each observation that brought nothing.
FIRST_HOPE = 0.05
FADING = 0.85
# A new best is an improvement if it takes less than this share of the old best; else it is noise.
IMPROVED = 0.99


class Tuner(Protocol):
    """Decides what to measure next; its caller measures and reports the result.

    A config that was observed is not proposed again. In the end every config was proposed.
    """

    def propose(self, count: int) -> list[Config]:
        """At most ``count`` untried configs, the most promising first; they stay untried."""

    def observe(self, config: Config, seconds: float) -> None:
        """Take in a measurement; infinite seconds for a candidate that failed."""

    def promise(self) -> float:
        """The share of the workload's time that measuring the next proposal may save."""


class Untried:
    """The configs not yet observed, in order."""

    def __init__(self, configs: Iterable[Config]) -> None:
        self._left = dict.fromkeys(configs)

    def __iter__(self) -> Iterator[Config]:
        return iter(self._left)

    def __len__(self) -> int:
        return len(self._left)

    def discard(self, config: Config) -> None:
        self._left.pop(config, None)

    def first(self, count: int) -> list[Config]:
        """The first ``count``."""
        return list(islice(self._left, max(0, count)))


class Hope:
    """The promise of tuners that predict none: it fades while nothing better is found."""

    def __init__(self) -> None:
        self._best = math.inf
        self._hope = FIRST_HOPE

    def observe(self, seconds: float) -> None:
        """Take in a measurement."""
        if seconds < IMPROVED * self._best:
            self._hope = FIRST_HOPE
        else:
            self._hope *= FADING
        self._best = min(self._best, seconds)

    def __float__(self) -> float:
        return self._hope


class FadingTuner:
    """A tuner that goes through the configs in a given order; it predicts no gains."""

    def __init__(self, order: Iterable[Config]) -> None:
        self._untried = Untried(order)
        self._hope = Hope()

    def propose(self, count: int) -> list[Config]:
        return self._untried.first(count)

    def observe(self, config: Config, seconds: float) -> None:
        self._untried.discard(config)
        self._hope.observe(seconds)

    def promise(self) -> float:
        return float(self._hope) if self._untried else 0.0


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
