"""What the profilers of bands share: a group that grows backwards, and the price of a whole one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tvm_neocpu.scheduling.graph.price import Growing, Price, impossible
from tvm_neocpu.scheduling.profilers.tiled_group import TiledGroup


class GrowingGroup(ABC):
    """A growing group and its price; a machine says what the group's totals cost."""

    def __init__(self, totals: TiledGroup) -> None:
        self._totals = totals

    def prepend(self, node: int) -> None:
        self._totals.prepend(node)

    def price(self) -> Price:
        totals = self._totals
        if totals.boundaries and len(totals) > 1:
            return impossible("an operation that the profiler does not know")
        return self._known_price(totals)

    @abstractmethod
    def _known_price(self, totals: TiledGroup) -> Price:
        """The price of a group of known operations, or of a single unknown one."""


def price_of(growing: Growing, group: Sequence[int]) -> Price:
    """The price of an empty group once it has grown to ``group``."""
    for node in reversed(group):
        growing.prepend(node)
    return growing.price()
