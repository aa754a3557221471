"""Additive noise: what each quantised tensor adds to the error at a network's outputs.

Every tensor that is rounded is a source of noise. Its power at the outputs is measured by rounding
that tensor alone; roundings of different tensors are taken as uncorrelated and small against the
signal, so that powers add:

    noise(layers in int8) = sum of power(t) over all t that at least one of these layers needs

A layer needs its input, its weight and its output. A tensor between two layers counts once, and
goes only when neither needs it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OutputNoise:
    """Noise powers relative to the signal at the outputs.

    ``powers``: source -> its power alone. ``needs``: layer -> the sources that it needs in int8.
    ``gains``: layer -> what int8 saves there, in any unit that all layers share.
    """

    powers: Mapping[str, float]
    needs: Mapping[str, frozenset[str]]
    gains: Mapping[str, float]

    def of(self, layers: Collection[str]) -> float:
        """The predicted noise power with these layers in int8."""
        sources = set().union(*(self.needs[name] for name in layers)) if layers else set()
        return math.fsum(self.powers[source] for source in sources)

    def worst(self, layers: Collection[str]) -> str:
        """The layer whose step back to fp32 saves most noise for what it costs.

        A source that several layers need counts in equal shares for each.
        """
        users = Counter(source for name in layers for source in self.needs[name])

        def saved(name: str) -> float:
            shares = (self.powers[source] / users[source] for source in self.needs[name])
            return math.fsum(shares) / max(self.gains[name], 1e-30)

        return max(layers, key=saved)


def sqnr(signal: float, noise: float) -> float:
    """Signal to quantisation noise ratio in dB; infinite without noise."""
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def relative_error(signal: float, noise: float) -> float:
    """Root mean square of the noise over that of the signal."""
    if noise == 0:
        return 0.0
    return math.sqrt(noise / signal) if signal else math.inf
