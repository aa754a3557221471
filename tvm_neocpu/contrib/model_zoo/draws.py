"""Draws weights that keep a network's signal near 1."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from . import moments
from .moments import Moments

Floats = NDArray[np.float32]

# The share of its mean that each filter gives up, 0 to 1. At 0, a deep network answers every input
# alike: the positive mean that each ReLU leaves drowns the rest. At 1, each ReLU enlarges small
# differences 1.2 times, and rounding errors show after forty layers (Yang et al. 2019, "A Mean
# Field Theory of Batch Normalization").
CENTRING = 0.6
# Standard deviation of biases and of the offsets in batch norms, for a signal of size 1.
OFFSET = 0.1


class Draws:
    """Weights in the order of the calls: the same calls and generator give the same bytes.

    Without a generator they are ones that take no memory: they have a shape only.
    """

    def __init__(self, rng: np.random.Generator | None) -> None:
        self._rng = rng

    @property
    def have_values(self) -> bool:
        return self._rng is not None

    def weight(self, shape: tuple[int, ...], before: Moments) -> Floats:
        """Normal weights, outputs first, scaled to outputs with a mean square of 1."""
        if self._rng is None:
            return np.broadcast_to(np.float32(1), shape)
        weight = self._rng.standard_normal(shape, dtype=np.float32)
        fan_in = math.prod(shape[1:])
        filters = weight.reshape(shape[0], fan_in)
        filters -= np.float32(CENTRING) * filters.mean(axis=1, keepdims=True)
        filters *= np.float32(math.sqrt(_gain(before) / fan_in))
        return weight

    def offset(self, size: int) -> Floats:
        if self._rng is None:
            return np.broadcast_to(np.float32(1), size)
        offset = self._rng.standard_normal(size, dtype=np.float32)
        offset *= np.float32(OFFSET)
        return offset

    def factor(self, size: int) -> Floats:
        """Uniform factors between 0.8 and 1.2."""
        if self._rng is None:
            return np.broadcast_to(np.float32(1), size)
        factor = self._rng.random(size, dtype=np.float32)
        factor *= np.float32(0.4)
        factor += np.float32(0.8)
        return factor


def _gain(before: Moments) -> float:
    """The sum of a filter's squared weights for outputs with a mean square of 1."""
    return 1 / moments.after_filters(before, kept=1 - CENTRING, gain=1.0).power


def after_weights(before: Moments) -> Moments:
    """The moments of what a layer with such weights makes of an input with ``before``."""
    return moments.after_filters(before, kept=1 - CENTRING, gain=_gain(before))
