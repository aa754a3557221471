"""The whole space in random order: the baseline that other tuners must beat."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tvm_neocpu.core.config import Config
from tvm_neocpu.tuning.tuners.base import Hope, Untried


class RandomTuner:
    """Proposes uniformly at random; equal seeds give equal proposals."""

    def __init__(self, space: Sequence[Config], seed: int = 7) -> None:
        configs = list(dict.fromkeys(space))
        random.Random(seed).shuffle(configs)
        self._untried = Untried(configs)
        self._hope = Hope()

    def propose(self, count: int) -> list[Config]:
        return self._untried.first(count)

    def observe(self, config: Config, seconds: float) -> None:
        self._untried.discard(config)
        self._hope.observe(seconds)

    def promise(self) -> float:
        return float(self._hope) if self._untried else 0.0
