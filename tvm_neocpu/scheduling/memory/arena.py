"""One arena, any offset: what the compiled network uses (`core.arena`)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_neocpu.core.arena import Lifetime, place, place_tightly
from tvm_neocpu.scheduling.memory.allocation import Allocation, in_one_piece


def greedy_arena(lifetimes: Sequence[Lifetime]) -> Allocation:
    """The largest buffer first, at the lowest free offset."""
    return in_one_piece(lifetimes, *place(lifetimes))


def tight_arena(lifetimes: Sequence[Lifetime]) -> Allocation:
    """Many sequences tried."""
    return in_one_piece(lifetimes, *place_tightly(lifetimes))
