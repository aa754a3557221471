"""What a tensor's values look like, followed through a network on paper.

Random weights only make a usable network when each layer knows the size of what reaches it: a
batch norm whose statistics are wrong by a factor of two doubles the signal, and fifty of those
overflow. Nothing is run here. A value is taken as `mean + channel + position`: two independent
Gaussians, of which one is constant within a channel and the other is new at every position. That is
crude, and close enough: the tests measure what really comes out.

Sources: He et al. 2015, "Delving Deep into Rectifiers", section 2.2; Poole et al. 2016,
"Exponential Expressivity in Deep Neural Networks through Transient Chaos", for following the
shared part of a signal apart from the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Gauss-Hermite quadrature: the expectation of f under a standard normal is f(nodes) @ masses.
_NODES, _MASSES = np.polynomial.hermite_e.hermegauss(32)
_MASSES = _MASSES / _MASSES.sum()


@dataclass(frozen=True)
class Moments:
    """The mean of all values, and the variances of the two parts that they have beside it."""

    mean: float
    channel: float
    position: float

    @property
    def power(self) -> float:
        """The mean square."""
        return self.mean**2 + self.channel + self.position


NORMALISED_IMAGE = Moments(mean=0.0, channel=0.0, position=1.0)


def after_filters(before: Moments, kept: float, gain: float) -> Moments:
    """Through random filters that let through a share `kept` of the mean.

    `gain` is the sum of the squares of a filter's weights.
    """
    channel = before.channel + (kept * before.mean) ** 2
    return Moments(0.0, gain * channel, gain * before.position)


def after_scale(before: Moments, scale: float) -> Moments:
    square = scale**2
    return Moments(scale * before.mean, square * before.channel, square * before.position)


def after_shift(before: Moments, variance: float) -> Moments:
    """Every channel shifted by a random amount of mean 0."""
    return replace(before, channel=before.channel + variance)


def after_elementwise(before: Moments, function: Callable[[Values], Values]) -> Moments:
    """Through any function of one value."""
    channels = before.mean + math.sqrt(before.channel) * _NODES
    values = function(channels[:, None] + math.sqrt(before.position) * _NODES)
    channel_means = values @ _MASSES
    mean = float(channel_means @ _MASSES)
    total = float(_MASSES @ np.square(values - mean) @ _MASSES)
    channel = float(np.square(channel_means - mean) @ _MASSES)
    return Moments(mean, channel, total - channel)


def after_maximum(before: Moments, count: int) -> Moments:
    """The largest of `count` neighbours.

    Normal values would vary less afterwards; those behind a ReLU are skewed, and vary as before.
    """
    # Blom's approximation of the expected maximum of that many standard normal values.
    lift = NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
    return replace(before, mean=before.mean + lift * math.sqrt(before.position))


def after_average(before: Moments, count: int) -> Moments:
    """The average of `count` neighbours: being alike, they even out like their square root."""
    return replace(before, position=before.position / math.sqrt(count))


def after_sum(one: Moments, other: Moments) -> Moments:
    """The sum of two tensors, taken as uncorrelated."""
    return Moments(
        one.mean + other.mean, one.channel + other.channel, one.position + other.position
    )


def after_concat(parts: Sequence[tuple[int, Moments]]) -> Moments:
    """Tensors side by side, each given with its number of channels."""
    total = sum(channels for channels, _ in parts)
    mean = sum(channels * part.mean for channels, part in parts) / total
    position = sum(channels * part.position for channels, part in parts) / total
    power = sum(channels * part.power for channels, part in parts) / total
    return Moments(mean, power - position - mean**2, position)
