"""NVDLA's convolution buffer: a ring in which buffers are freed in the order of allocation.

A buffer that is done keeps its place until all older ones are done, so one long-lived tensor (a
skip connection) holds everything behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_neocpu.core.arena import Lifetime
from tvm_neocpu.scheduling.memory.allocation import Allocation, Piece


def circular(lifetimes: Sequence[Lifetime]) -> Allocation:
    """The smallest ring in which the buffers find room, one behind the other as they are made."""
    sequence = sorted(range(len(lifetimes)), key=lambda at: (lifetimes[at].first, at))
    begins, head = {}, 0
    for at in sequence:
        begins[at] = head
        head += lifetimes[at].size
    size, oldest = 0, 0
    for place, at in enumerate(sequence):
        while lifetimes[sequence[oldest]].last < lifetimes[at].first and oldest < place:
            oldest += 1
        size = max(size, begins[at] + lifetimes[at].size - begins[sequence[oldest]])
    places = (_pieces(begins[at], life.size, size) for at, life in enumerate(lifetimes))
    return Allocation(tuple(places), size)


def _pieces(begin: int, length: int, size: int) -> tuple[Piece, ...]:
    if not length:
        return ()
    begin %= size
    if begin + length <= size:
        return ((begin, begin + length),)
    return ((begin, size), (0, begin + length - size))
