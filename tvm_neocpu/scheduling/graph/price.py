"""What a profiler says of a group, and what a partitioner may ask it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol


@dataclass(frozen=True)
class Price:
    """One group, run in ``tiles`` bands of rows; ``cycles`` are infinite if it fits at no tile.

    ``dram_bytes``: traffic beyond the fast memory. ``buffer_bytes``: fast memory that the group
    takes; where it does not fit, the least that would do. ``compute_cycles``: what the arithmetic
    alone takes. ``why_not`` says why a group is impossible. ``in_pieces``: no row of it fits, its
    tensors pass through the buffer in pieces of a row. ``cost`` is what a partition minimises: the
    cycles, and a little for traffic that hides behind the arithmetic.
    """

    cost: float
    cycles: float
    dram_bytes: float
    buffer_bytes: float
    compute_cycles: float
    tiles: int
    keeps_weights: bool = False
    why_not: str = ""
    in_pieces: bool = False

    @property
    def is_possible(self) -> bool:
        return self.cycles < inf


def impossible(why_not: str, least: float = 0.0) -> Price:
    """The price of a group that cannot run fused."""
    return Price(inf, inf, 0.0, least, 0.0, 1, why_not=why_not)


class Growing(Protocol):
    """A group that grows backwards, one node at a time, and is priced after each."""

    def prepend(self, node: int) -> None:
        """Add a node that runs before all of the group; its readers in the graph are known."""

    def price(self) -> Price: ...


class Profiler(Protocol):
    """What a group of nodes costs on one machine. The same group has the same price."""

    def growing(self) -> Growing:
        """An empty group."""

    def price(self, group: Sequence[int]) -> Price:
        """The price of a group whose nodes run in that order."""
