"""What an allocator returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_neocpu.core.arena import Lifetime

# Bytes from begin to end, the end excluded.
Piece = tuple[int, int]


@dataclass(frozen=True)
class Allocation:
    """``places``: for each buffer the pieces of memory that it takes; ``size``: bytes of all.

    Buffers of one time share no byte. A buffer that passes the end of a ring has two pieces.
    """

    places: tuple[tuple[Piece, ...], ...]
    size: int


def in_one_piece(lifetimes: Sequence[Lifetime], offsets: Sequence[int], size: int) -> Allocation:
    """Each buffer from its offset on."""
    ends = [at + life.size for at, life in zip(offsets, lifetimes, strict=True)]
    return Allocation(tuple(((at, end),) for at, end in zip(offsets, ends, strict=True)), size)
