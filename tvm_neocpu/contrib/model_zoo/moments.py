"""What a tensor's values look like, followed through a network on paper.

Random weights only make a usable network when each layer knows the size of what reaches it: a batch norm whose
statistics are wrong by a factor of two doubles the signal, and fifty of those overflow. Nothing is run here. A value is
taken as `mean + channel + position`: two independent Gaussians, of which one is constant within a channel and the other is
new at every position. That is crude near borders, and close enough: the tests measure what really comes out.

Sources: He et al. 2015, "Delving Deep into Rectifiers", section 2.2; Poole et al. 2016, "Exponential Expressivity in
Deep Neural Networks through Transient Chaos", for following the shared and the varying part apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

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


STANDARD = Moments(0.0, 0.0, 1.0)  # what a normalised image is taken to be


def after_filters(before: Moments, kept: float, gain: float) -> Moments:
    """Through random weights that pass a share `kept` of the mean, and whose squares sum up to `gain`."""
    return Moments(0.0, gain * (before.channel + (kept * before.mean) ** 2), gain * before.position)


def after_scale(before: Moments, scale: float) -> Moments:
    return Moments(scale * before.mean, scale**2 * before.channel, scale**2 * before.position)


def after_shift(before: Moments, variance: float) -> Moments:
    """Every channel shifted by a random amount of mean 0."""
    return Moments(before.mean, before.channel + variance, before.position)


def after_elementwise(before: Moments, function: Callable[[Values], Values]) -> Moments:
    """Through any function of one value, by Gauss-Hermite quadrature over both parts."""
    channel = before.mean + math.sqrt(before.channel) * _NODES
    values = function(channel[:, None] + math.sqrt(before.position) * _NODES)
    channel_means = values @ _MASSES
    mean = float(channel_means @ _MASSES)
    variance = float(_MASSES @ np.square(values - mean) @ _MASSES)
    between = float(np.square(channel_means - mean) @ _MASSES)
    return Moments(mean, between, variance - between)


def after_maximum(before: Moments, window: int) -> Moments:
    """The largest of `window` neighbours.

    Normal values would vary less afterwards; those behind a ReLU are skewed, and vary as before.
    """
    # Blom's approximation of the expected maximum of that many standard normal values.
    lift = NormalDist().inv_cdf((window - 0.375) / (window + 0.25))
    return replace(before, mean=before.mean + lift * math.sqrt(before.position))


def after_average(before: Moments, window: int) -> Moments:
    """The average of `window` neighbours, who resemble each other: only the square root of them is taken to count."""
    return Moments(before.mean, before.channel, before.position / math.sqrt(window))


def after_sum(one: Moments, other: Moments) -> Moments:
    """The sum of two tensors, taken as uncorrelated."""
    return Moments(
        one.mean + other.mean, one.channel + other.channel, one.position + other.position
    )


def after_concat(parts: Sequence[tuple[int, Moments]]) -> Moments:
    """Tensors side by side, each with its number of channels."""
    total = sum(channels for channels, _ in parts)
    mean = sum(channels * part.mean for channels, part in parts) / total
    position = sum(channels * part.position for channels, part in parts) / total
    power = sum(channels * part.power for channels, part in parts) / total
    return Moments(mean, power - position - mean**2, position)
