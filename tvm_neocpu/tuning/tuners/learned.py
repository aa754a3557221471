"""The default tuner: what the shared ranker expects to be fastest, and how much it may save."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.workload import Workload
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


class LearnedTuner:
    """Proposes by guessed time. Its promise is the expected improvement of the best guess.

    Guesses err by the ranker's ``sigma`` (log-normal); the improvement counts against the best
    measured config. ``favoured`` configs come before the rest of the space. Nothing is predicted
    before it is asked for: DenseNet-121 has 365,000 configs.
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
        self._known: tuple[tuple[int, int], list[Config], Floats] | None = None

    def propose(self, count: int) -> list[Config]:
        return self._ranked()[0][: max(0, count)]

    def observe(self, config: Config, seconds: float) -> None:
        self._seen.add(config)
        self._ranker.learn(self._workload, config, self._predicted(config), seconds)
        self._best = min(self._best, seconds if seconds > 0 else math.inf)

    def promise(self) -> float:
        configs, guesses = self._ranked()
        if not configs:
            return 0.0
        if self._best == math.inf:
            return FIRST_HOPE
        gain = math.log(self._best) - float(guesses[0])
        return expected_improvement(gain, self._ranker.sigma)

    def _ranked(self) -> tuple[list[Config], Floats]:
        """Untried configs and the guessed logs of their seconds, ascending."""
        version = (self._ranker.version, len(self._seen))
        if self._known is not None and self._known[0] == version:
            return self._known[1], self._known[2]
        untried = np.array([config not in self._seen for config in self._shortlist], bool)
        if not untried.any():
            self._refill()
            untried = np.ones(len(self._shortlist), bool)
        guesses = self._priors.copy()
        if len(guesses):
            guesses += self._errors()
        order = [index for index in np.argsort(guesses, kind="stable") if untried[index]]
        self._known = version, [self._shortlist[index] for index in order], guesses[order]
        return self._known[1], self._known[2]

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

    def _errors(self) -> Floats | float:
        """What the ranker adds to the priors; it looks at features once it has trees."""
        if not self._ranker.version:
            return self._ranker.common_error(self._workload)
        if self._features is None:
            predicted = [_positive(self._predicted(config)) for config in self._shortlist]
            self._features = self._ranker.features(self._workload, self._shortlist, predicted)
        return self._ranker.errors(self._workload, self._features)


def _positive(seconds: float) -> float:
    """A prediction that is no positive time counts as 1000 s."""
    return seconds if 0 < seconds < math.inf else 1e3
