"""Where each buffer of a network lies in one piece of memory, by size and lifetime.

Greedy by size (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference",
section 5): the largest buffer first, at the lowest offset that no buffer of the same time takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Generated code loads whole vectors from tensors, so that their data must be aligned to this.
ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``size`` bytes, needed from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether some step needs both."""
        return self.first <= other.last and other.first <= self.last


def place(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset for each buffer, in bytes, and the bytes of all together.

    Buffers that a step needs both never overlap; offsets are multiples of ``ALIGNMENT``.
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for index in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size, i)):
        buffer = lifetimes[index]
        taken = [
            (offsets[other], offsets[other] + lifetimes[other].size)
            for other in placed
            if lifetimes[other].meets(buffer)
        ]
        offsets[index] = _lowest_gap(sorted(taken), buffer.size)
        placed.append(index)
    ends = [at + buffer.size for at, buffer in zip(offsets, lifetimes, strict=True)]
    return offsets, max(ends, default=0)


def _lowest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The lowest aligned offset of ``size`` free bytes between (begin, end) in ascending order."""
    at = 0
    for begin, end in taken:
        if at + size <= begin:
            break
        at = max(at, -(-end // ALIGNMENT) * ALIGNMENT)
    return at
