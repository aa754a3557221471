"""What TVM's StaticPlanBlockMemory does: a tensor takes a whole allocation that is free again.

Of the free allocations the smallest that is large enough and at most 16 times as large, else the
largest that is at least a sixteenth, which grows. Larger differences get an allocation of their
own. After `TokenAllocator1D` in TVM's static_plan_block_memory.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_neocpu.core.arena import Lifetime
from tvm_neocpu.scheduling.memory.allocation import Allocation, in_one_piece

MATCH_RANGE = 16


def whole_allocations(lifetimes: Sequence[Lifetime]) -> Allocation:
    """The allocations side by side."""
    sizes: list[int] = []
    busy_until: list[int] = []
    member = [0] * len(lifetimes)
    for at in sorted(range(len(lifetimes)), key=lambda at: (lifetimes[at].first, at)):
        life = lifetimes[at]
        free = [place for place, last in enumerate(busy_until) if last < life.first]
        enough = [p for p in free if life.size <= sizes[p] <= life.size * MATCH_RANGE]
        smaller = [p for p in free if life.size > sizes[p] >= life.size / MATCH_RANGE]
        if enough:
            member[at] = min(enough, key=lambda place: sizes[place])
        elif smaller:
            member[at] = max(smaller, key=lambda place: sizes[place])
        else:
            member[at] = len(sizes)
            sizes.append(0)
            busy_until.append(-1)
        sizes[member[at]] = max(sizes[member[at]], life.size)
        busy_until[member[at]] = life.last
    begins = [sum(sizes[:at]) for at in range(len(sizes))]
    return in_one_piece(lifetimes, [begins[at] for at in member], sum(sizes))
