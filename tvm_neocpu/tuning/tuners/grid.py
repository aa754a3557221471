"""The whole space in the cost model's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_neocpu.core.config import Config
from tvm_neocpu.tuning.tuners.base import Hope, Untried, in_predicted_order


class GridTuner:
    """Proposes the cheapest prediction first and learns nothing."""

    def __init__(self, space: Sequence[Config], predicted: Callable[[Config], float]) -> None:
        self._untried = Untried(in_predicted_order(space, predicted))
        self._hope = Hope()

    def propose(self, count: int) -> list[Config]:
        return self._untried.first(count)

    def observe(self, config: Config, seconds: float) -> None:
        self._untried.discard(config)
        self._hope.observe(seconds)

    def promise(self) -> float:
        return float(self._hope) if self._untried else 0.0
