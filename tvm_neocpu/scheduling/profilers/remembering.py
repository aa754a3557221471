"""A profiler that remembers: partitioners of one network ask for the same groups again and again.

Groups are paths of a tree, from the node that runs last to the first one. A step that was taken
before costs a look into a table; the profiler behind sees a group only when its path leaves the
tree, and then all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_neocpu.scheduling.graph.price import Growing, Price, Profiler
from tvm_neocpu.scheduling.profilers.growing_group import price_of

_ROOT = 0


class Remembering:
    """Prices of ``profiler``, each computed once. ``computed``: how many of them there are."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        # A step of the tree from a place by a node; places are numbers.
        self._steps: dict[tuple[int, int], int] = {}
        self._prices: dict[int, Price] = {}

    @property
    def computed(self) -> int:
        return len(self._prices)

    def growing(self) -> Growing:
        return _Path(self)

    def price(self, group: Sequence[int]) -> Price:
        return price_of(self.growing(), group)

    def step(self, place: int, node: int) -> int:
        """The place behind a step, new or known."""
        return self._steps.setdefault((place, node), len(self._steps) + 1)

    def price_at(self, place: int) -> Price | None:
        return self._prices.get(place)

    def compute(self, place: int, growing: Growing) -> Price:
        """The price of the group at a place, which has grown so far."""
        found = self._prices[place] = growing.price()
        return found

    def begin(self) -> Growing:
        return self._profiler.growing()


class _Path:
    """A group that grows; its nodes reach the profiler behind only for a price that is new."""

    def __init__(self, owner: Remembering) -> None:
        self._owner = owner
        self._place = _ROOT
        self._behind: Growing | None = None
        self._waiting: list[int] = []

    def prepend(self, node: int) -> None:
        self._place = self._owner.step(self._place, node)
        self._waiting.append(node)

    def price(self) -> Price:
        known = self._owner.price_at(self._place)
        if known is not None:
            return known
        self._behind = self._behind or self._owner.begin()
        for node in self._waiting:
            self._behind.prepend(node)
        self._waiting.clear()
        return self._owner.compute(self._place, self._behind)
