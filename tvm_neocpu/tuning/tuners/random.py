"""The whole space in random order: the baseline that other tuners must beat."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.tuning.tuners.base import FadingTuner


class RandomTuner(FadingTuner):
    """Proposes uniformly at random; equal seeds give equal proposals."""

    def __init__(self, space: Sequence[Config], seed: int = 7) -> None:
        configs = list(dict.fromkeys(space))
        random.Random(seed).shuffle(configs)
        super().__init__(configs)
