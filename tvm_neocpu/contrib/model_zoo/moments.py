"""Mean and variance of a tensor's values, computed through a network without running it.

Random weights make a usable network only if each layer knows the size of its input: a batch norm
whose statistics are wrong by a factor of two doubles the signal, and fifty of them overflow. The
model of a value is `mean + channel + position`: two independent Gaussians, one constant within a
channel, one new at every position. The model is crude and close enough: the tests measure what the
networks really put out.

Sources: He et al. 2015, "Delving Deep into Rectifiers", section 2.2; Poole et al. 2016,
"Exponential Expressivity in Deep Neural Networks through Transient Chaos", for the separate
treatment of the part of a signal that positions share.
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
    """The mean of all values, and the variances of their two Gaussian parts."""

    mean: float
    channel: float
    position: float

    @property
    def power(self) -> float:
        """The mean square."""
        return self.mean**2 + self.channel + self.position


NORMALISED_IMAGE = Moments(mean=0.0, channel=0.0, position=1.0)


def after_filters(before: Moments, kept: float, gain: float) -> Moments:
    """After random filters that let through a share `kept` of the mean.

    `gain` is the sum of a filter's squared weights.
    """
    channel = before.channel + (kept * before.mean) ** 2
    return Moments(0.0, gain * channel, gain * before.position)


def after_scale(before: Moments, scale: float) -> Moments:
    """After multiplication by `scale`."""
    square = scale**2
    return Moments(scale * before.mean, square * before.channel, square * before.position)


def after_shift(before: Moments, variance: float) -> Moments:
    """After a random shift of each channel, with mean 0 and the given variance."""
    return replace(before, channel=before.channel + variance)


def after_elementwise(before: Moments, function: Callable[[Values], Values]) -> Moments:
    """After any function of one value."""
    channels = before.mean + math.sqrt(before.channel) * _NODES
    values = function(channels[:, None] + math.sqrt(before.position) * _NODES)
    channel_means = values @ _MASSES
    mean = float(channel_means @ _MASSES)
    total = float(_MASSES @ np.square(values - mean) @ _MASSES)
    channel = float(np.square(channel_means - mean) @ _MASSES)
    return Moments(mean, channel, total - channel)


def after_maximum(before: Moments, count: int) -> Moments:
    """After the max of `count` neighbours.

    The max of normal values varies less than they do. Values behind a ReLU are skewed; their max
    varies as they do, so the variance stays.
    """
    # Blom's approximation of the expected maximum of `count` standard normal values.
    lift = NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
    return replace(before, mean=before.mean + lift * math.sqrt(before.position))


def after_average(before: Moments, count: int) -> Moments:
    """After the average of `count` neighbours.

    Neighbours are alike, so the variance falls by sqrt(count), not by count.
    """
    return replace(before, position=before.position / math.sqrt(count))


def after_sum(one: Moments, other: Moments) -> Moments:
    """After the sum of two tensors, assumed to be uncorrelated."""
    return Moments(
        one.mean + other.mean, one.channel + other.channel, one.position + other.position
    )


def after_product(one: Moments, other: Moments) -> Moments:
    """After the product of two tensors, assumed to be independent."""
    mean = one.mean * other.mean
    channels = (one.mean**2 + one.channel) * (other.mean**2 + other.channel)
    return Moments(mean, channels - mean**2, one.power * other.power - channels)


def after_concat(parts: Sequence[tuple[int, Moments]]) -> Moments:
    """After concatenation over channels; each part is (channels, moments)."""
    total = sum(channels for channels, _ in parts)
    mean = sum(channels * part.mean for channels, part in parts) / total
    position = sum(channels * part.position for channels, part in parts) / total
    power = sum(channels * part.power for channels, part in parts) / total
    return Moments(mean, power - position - mean**2, position)
