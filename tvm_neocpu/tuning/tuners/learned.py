"""The default tuner: what the shared ranker expects to be fastest, and how much it may save."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.tuners.base import FIRST_HOPE, in_predicted_order
from tvm_neocpu.tuning.tuners.ranker import Floats, Ranker

# As many of the cost model's favourites are looked at; a space has up to 14,000 configs.
SHORTLIST = 1200


def expected_improvement(gain: float, sigma: float) -> float:
    """The mean of what a normal variable of this mean and deviation has above zero.

    By the standard library: importing scipy.stats takes a fifth of a tuner's start.
    """
    at = gain / sigma
    density = math.exp(-at * at / 2) / math.sqrt(2 * math.pi)
    return gain * math.erfc(-at / math.sqrt(2)) / 2 + sigma * density


@dataclass(frozen=True)
class _Ranked:
    """Untried configs, the most wanted first, and what the first is expected to improve."""

    configs: list[Config]
    improvement: float


class LearnedTuner:
    """Proposes what is expected to improve most, which is its promise, too.

    Guesses err by the ranker's ``spreads`` (log-normal), the more the less a config is like those
    that were measured; the improvement counts against the best measured config. Before there is
    one, the best guess comes first. ``favoured`` configs come before the rest of the space. Nothing
    is predicted before it is asked for: DenseNet-121 has 365,000 configs.
    """

    def __init__(
        self,
        workload: Workload,
        space: Sequence[Config],
        predicted: Callable[[Config], float],
        ranker: Ranker,
        favoured: Sequence[Config] = (),
    ) -> None:
        self._workload = workload
        first = dict.fromkeys(favoured)
        rest = dict.fromkeys(config for config in space if config not in first)
        self._unsorted = [list(group) for group in (first, rest) if group]
        self._left: list[Config] = []
        self._predicted = predicted
        self._ranker = ranker
        self._best = math.inf
        self._seen: set[Config] = set()
        self._shortlist: list[Config] = []
        self._features: Floats | None = None
        self._priors: Floats = np.zeros(0)
        self._known: tuple[tuple[int, int, float], _Ranked] | None = None

    def propose(self, count: int) -> list[Config]:
        return self._ranked().configs[: max(0, count)]

    def observe(self, config: Config, seconds: float) -> None:
        self._seen.add(config)
        self._ranker.learn(self._workload, config, self._predicted(config), seconds)
        self._best = min(self._best, seconds if seconds > 0 else math.inf)

    def promise(self) -> float:
        return self._ranked().improvement

    def _ranked(self) -> _Ranked:
        version = (self._ranker.version, len(self._seen), self._ranker.sigma)
        if self._known is None or self._known[0] != version:
            self._known = version, self._rank()
        return self._known[1]

    def _rank(self) -> _Ranked:
        untried = np.array([config not in self._seen for config in self._shortlist], bool)
        if not untried.any():
            self._refill()
            untried = np.ones(len(self._shortlist), bool)
        if not len(untried):
            return _Ranked([], 0.0)
        errors, spreads = self._guessed()
        guesses = self._priors + errors
        if self._best == math.inf:
            wanted, improvement = -guesses, FIRST_HOPE
        else:
            gains = math.log(self._best) - guesses
            wanted = np.array([*map(expected_improvement, gains, spreads)])
            improvement = float(wanted[untried].max())
        order = [index for index in np.lexsort((guesses, -wanted)) if untried[index]]
        return _Ranked([self._shortlist[index] for index in order], improvement)

    def _refill(self) -> None:
        """The next configs of the cost model's order: guessing about all of them takes too long."""
        while not (left := [config for config in self._left if config not in self._seen]):
            if not self._unsorted:
                break
            self._left = in_predicted_order(self._unsorted.pop(0), self._predicted)
        self._shortlist, self._left = left[:SHORTLIST], left[SHORTLIST:]
        predicted = [_positive(self._predicted(config)) for config in self._shortlist]
        self._features = None
        self._priors = np.log(predicted) if predicted else np.zeros(0)

    def _guessed(self) -> tuple[Floats, Floats]:
        """What the ranker adds to the priors, and how far each sum may be off.

        It looks at features once it has trees.
        """
        ranker, count = self._ranker, len(self._shortlist)
        if not ranker.version:
            error = ranker.common_error(self._workload)
            return np.full(count, error), np.full(count, ranker.sigma)
        if self._features is None:
            predicted = [_positive(self._predicted(config)) for config in self._shortlist]
            self._features = ranker.features(self._workload, self._shortlist, predicted)
        rows = self._workload, self._features
        return ranker.errors(*rows), ranker.spreads(*rows)


def _positive(seconds: float) -> float:
    """A prediction that is no positive time counts as 1000 s."""
    return seconds if 0 < seconds < math.inf else 1e3
