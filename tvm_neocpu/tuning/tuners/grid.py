"""The whole space in the cost model's order: the default tuner, since the model ranks well."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_neocpu.core.config import Config
from tvm_neocpu.tuning.tuners.base import Untried, in_predicted_order


class GridTuner:
    """Proposes the cheapest prediction first and learns nothing."""

    def __init__(self, space: Sequence[Config], predicted: Callable[[Config], float]) -> None:
        self._untried = Untried(in_predicted_order(space, predicted))

    def propose(self, count: int) -> list[Config]:
        return self._untried.take(count)

    def observe(self, config: Config, seconds: float) -> None:
        self._untried.discard(config)
