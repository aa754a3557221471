"""Every allocator by name. The lower bound of all is `core.arena.largest_live_set`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tvm_neocpu.core.arena import Lifetime
from tvm_neocpu.scheduling.memory.allocation import Allocation
from tvm_neocpu.scheduling.memory.arena import greedy_arena, tight_arena
from tvm_neocpu.scheduling.memory.bank_groups import bank_groups
from tvm_neocpu.scheduling.memory.circular import circular
from tvm_neocpu.scheduling.memory.whole_allocations import whole_allocations

ALLOCATORS: Mapping[str, Callable[[Sequence[Lifetime]], Allocation]] = MappingProxyType(
    {
        "arena": tight_arena,
        "greedy-arena": greedy_arena,
        "bank-groups": bank_groups,
        "circular": circular,
        "whole-allocations": whole_allocations,
    }
)
