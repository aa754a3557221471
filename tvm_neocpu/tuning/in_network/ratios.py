"""Ratios of times that were taken in turns: what they are, and how far they can be off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

# Of a log-ratio: however alike its samples are, code is placed anew in each process.
FLOOR = 0.0015
# A log-ratio with this error is known well enough: more readings would decide nothing.
SURE = 0.004
# Quantile of the normal distribution for an interval of 95 %, and the factors that make a standard
# error of the median from the median absolute deviation.
_Z, _MAD_TO_SIGMA, _MEDIAN = 1.96, 1.4826, 1.2533
# Looking after each of 50 turns, one in 20 finds 1.96 errors by chance; three errors one in 100.
_SURE_Z = 3.0


@dataclass(frozen=True)
class Ratio:
    """A ratio of two times, as a log, with its standard error."""

    log: float
    error: float

    @property
    def value(self) -> float:
        return math.exp(self.log)

    @property
    def low(self) -> float:
        """The lower end of the interval that holds the true ratio 19 times of 20."""
        return math.exp(self.log - _Z * self.error)

    @property
    def high(self) -> float:
        """The upper end of that interval."""
        return math.exp(self.log + _Z * self.error)

    @property
    def is_below_one(self) -> bool:
        """Whether it is surely below 1, also for somebody who looked many times until it was so."""
        return self.log + _SURE_Z * self.error < 0

    @property
    def is_above_one(self) -> bool:
        """Whether it is surely above 1."""
        return self.log - _SURE_Z * self.error > 0

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f}-{self.high:.3f})"


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """``ours`` over ``theirs``, times of the same turns in the same order: the median pair.

    A machine whose clock drifts slows both runs of a pair.
    """
    logs = [math.log(one / other) for one, other in zip(ours, theirs, strict=True)]
    middle = median(logs)
    spread = _MAD_TO_SIGMA * median(abs(log - middle) for log in logs)
    return Ratio(middle, max(FLOOR, _MEDIAN * spread / math.sqrt(len(logs))))


def over(one: Ratio, other: Ratio) -> Ratio:
    """The ratio of two ratios to the same thing, measured apart."""
    return Ratio(one.log - other.log, math.hypot(one.error, other.error))


def combined(ratios: Sequence[Ratio]) -> Ratio:
    """The mean of independent measurements of one ratio, weighted by how sure each is."""
    weights = [ratio.error**-2 for ratio in ratios]
    total = sum(weights)
    log = sum(weight * ratio.log for weight, ratio in zip(weights, ratios, strict=True)) / total
    # Two measurements that disagree are less sure than either says.
    scatter = sum(w * (r.log - log) ** 2 for w, r in zip(weights, ratios, strict=True))
    excess = max(1.0, scatter / max(1, len(ratios) - 1))
    return Ratio(log, max(FLOOR / math.sqrt(len(ratios)), math.sqrt(excess / total)))
