"""From a tensor's distribution to the range that its 256 levels span: four methods, pure.

minmax      everything that was seen; never clips, and one outlier widens every step
percentile  leaves out the outermost 0.001 % of the values
mse         least mean squared error of rounding and clipping together
entropy     least Kullback-Leibler divergence between the values and their quantised image
            (Migacz 2017, "8-bit inference with TensorRT")

mse and entropy try ranges that shrink towards zero, both ends by the same factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 2048
LEVELS = 256
PERCENTILE = 99.999
# Factors by which mse and entropy try to shrink the range.
SHRINKING = tuple(1 - step / 100 for step in range(81))

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """The smallest and the largest value that a tensor takes, or shall keep."""

    low: float
    high: float

    def with_zero(self) -> Range:
        """Widened to contain zero, which padding and ReLU need exactly."""
        return Range(min(self.low, 0.0), max(self.high, 0.0))

    def scaled(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Histogram:
    """How many values lie in each of the equal bins between the extremes."""

    extremes: Range
    counts: NDArray[np.int64]

    @property
    def centres(self) -> Floats:
        """The middle of each bin."""
        width = (self.extremes.high - self.extremes.low) / len(self.counts)
        return self.extremes.low + width * (np.arange(len(self.counts)) + 0.5)


def minmax(histogram: Histogram) -> Range:
    return histogram.extremes.with_zero()


def percentile(histogram: Histogram, share: float = PERCENTILE) -> Range:
    """Half of what is left out lies at each end."""
    seen = np.cumsum(histogram.counts)
    out = (100 - share) / 200 * seen[-1]
    centres = histogram.centres
    low = centres[np.searchsorted(seen, out)]
    high = centres[np.searchsorted(seen, seen[-1] - out)]
    return _inside(Range(float(low), float(high)), histogram)


def mse(histogram: Histogram) -> Range:
    return _least(histogram, _squared_error)


def entropy(histogram: Histogram) -> Range:
    return _least(_without_zeros(histogram), _divergence)


METHODS: dict[str, Callable[[Histogram], Range]] = {
    "minmax": minmax,
    "entropy": entropy,
    "percentile": percentile,
    "mse": mse,
}


def _least(histogram: Histogram, cost: Callable[[Histogram, Range], float]) -> Range:
    """Of all shrunk ranges the one of least cost; the widest where several have it."""
    full = histogram.extremes.with_zero()
    return min((full.scaled(factor) for factor in SHRINKING), key=lambda r: cost(histogram, r))


def _without_zeros(histogram: Histogram) -> Histogram:
    """Zero's bin as full as the fuller of its neighbours.

    ReLU makes half of all values zero, and zero is exact in any range: counted, it would draw the
    range towards itself.
    """
    low, high = histogram.extremes.low, histogram.extremes.high
    if not low <= 0 <= high or low == high:
        return histogram
    last = len(histogram.counts) - 1
    place = min(int(-low / (high - low) * (last + 1)), last)
    counts = histogram.counts.copy()
    beside = [counts[at] for at in (place - 1, place + 1) if 0 <= at <= last]
    counts[place] = max(beside)
    return Histogram(histogram.extremes, counts)


def _squared_error(histogram: Histogram, kept: Range) -> float:
    values = histogram.centres
    return float(np.dot(histogram.counts, (values - _quantised(values, kept)) ** 2))


def _divergence(histogram: Histogram, kept: Range) -> float:
    """KL(P || Q) over bins: P the values clipped to the range, Q spread evenly over each level.

    What is clipped counts in P's outermost bins alone, so that clipping much costs much.
    """
    values, counts = histogram.centres, histogram.counts.astype(np.float64)
    inside = (values >= kept.low) & (values <= kept.high)
    if not inside.any():
        return np.inf
    first, last = np.flatnonzero(inside)[[0, -1]]
    clipped = counts[first : last + 1].copy()
    level = _levels(values[first : last + 1], kept)
    filled = clipped > 0
    total = np.bincount(level, clipped, LEVELS)
    spread = np.bincount(level, filled, LEVELS)
    q = np.where(filled, (total / np.maximum(spread, 1))[level], 0.0)
    clipped[0] += counts[:first].sum()
    clipped[-1] += counts[last + 1 :].sum()
    p = clipped / clipped.sum()
    q = np.maximum(q / max(q.sum(), 1.0), 1e-12)
    return float(np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0])))


def _quantised(values: Floats, kept: Range) -> Floats:
    """Values as their level gives them back."""
    step = (kept.high - kept.low) / (LEVELS - 1) or 1.0
    zero = round(-kept.low / step)
    return (_levels(values, kept) - zero) * step


def _levels(values: Floats, kept: Range) -> NDArray[np.int64]:
    """u8 levels, clipped."""
    step = (kept.high - kept.low) / (LEVELS - 1) or 1.0
    zero = round(-kept.low / step)
    return np.clip(np.rint(values / step) + zero, 0, LEVELS - 1).astype(np.int64)


def _inside(wanted: Range, histogram: Histogram) -> Range:
    """With zero, and no wider than what was seen."""
    full = histogram.extremes.with_zero()
    wanted = wanted.with_zero()
    return Range(max(wanted.low, full.low), min(wanted.high, full.high))
