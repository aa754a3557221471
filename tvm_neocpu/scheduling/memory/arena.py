"""One arena, any offset: what the compiled network uses (`core.arena`)."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_neocpu.core.arena import ROUNDS, Lifetime, place, place_tightly
from tvm_neocpu.scheduling.memory.allocation import Allocation, in_one_piece

# Rounds times buffers: a round takes some 10 us a buffer, and there are ten ways to search.
WORK = 32_000


def greedy_arena(lifetimes: Sequence[Lifetime]) -> Allocation:
    """The largest buffer first, at the lowest free offset."""
    return in_one_piece(lifetimes, *place(lifetimes))


def tight_arena(lifetimes: Sequence[Lifetime]) -> Allocation:
    """Many sequences tried; fewer of many buffers, so that the time does not grow with them."""
    rounds = max(1, min(ROUNDS, WORK // max(1, len(lifetimes))))
    return in_one_piece(lifetimes, *place_tightly(lifetimes, rounds))
