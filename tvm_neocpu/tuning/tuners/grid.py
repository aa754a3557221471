"""The whole space in the cost model's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.tuning.tuners.base import FadingTuner, in_predicted_order


class GridTuner(FadingTuner):
    """Proposes the cheapest prediction first and learns nothing."""

    def __init__(self, space: Sequence[Config], predicted: Callable[[Config], float]) -> None:
        super().__init__(in_predicted_order(space, predicted))
