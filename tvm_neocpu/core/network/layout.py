"""Feature-map layouts: plain ``NCHW`` and blocked ``NCHW[x]c``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_BLOCKED = re.compile(r"NCHW([1-9]\d*)c")


@cache
def factors(number: int) -> tuple[int, ...]:
    """All divisors in ascending order: ``factors(12) == (1, 2, 3, 4, 6, 12)``."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def largest_factor(number: int, at_most: int) -> int:
    """The largest divisor of ``number`` that is at most ``at_most`` (and at least 1)."""
    return max(d for d in factors(number) if d <= max(1, at_most))


@dataclass(frozen=True, order=True)
class Layout:
    """A feature-map layout; ``block`` channels lie innermost, ``block == 0`` is plain NCHW.

    NeoCPU, section 3.1.1: ``NCHW[x]c`` splits C into ``C // x`` outer and ``x`` inner channels.
    """

    block: int = 0

    def __post_init__(self) -> None:
        if self.block < 0:
            raise ValueError(f"a layout's block cannot be negative, got {self.block}")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read ``"NCHW"`` or ``"NCHW16c"``; raises ValueError on anything else."""
        if text == "NCHW":
            return cls(0)
        match = _BLOCKED.fullmatch(text)
        if match is None:
            raise ValueError(f"unknown feature-map layout {text!r}; expected NCHW or NCHW<x>c")
        return cls(int(match.group(1)))

    def __str__(self) -> str:
        return f"NCHW{self.block}c" if self.block else "NCHW"

    @property
    def is_blocked(self) -> bool:
        return self.block > 0

    def fits(self, channels: int) -> bool:
        """Whether the block divides this many channels."""
        return not self.is_blocked or channels % self.block == 0

    def shape_of(self, nchw: tuple[int, int, int, int]) -> tuple[int, ...]:
        """The stored shape of a logical ``(N, C, H, W)`` tensor in this layout."""
        if not self.is_blocked:
            return nchw
        batch, channels, height, width = nchw
        if channels % self.block:
            raise ValueError(f"{channels} channels cannot be stored as {self}")
        return (batch, channels // self.block, height, width, self.block)

    def logical_shape(self, stored: tuple[int, ...]) -> tuple[int, int, int, int]:
        """The inverse of :meth:`shape_of`."""
        if not self.is_blocked:
            batch, channels, height, width = stored
            return (batch, channels, height, width)
        batch, outer, height, width, inner = stored
        return (batch, outer * inner, height, width)


NCHW = Layout(0)
