"""The paper's allocation: banks in groups, each of which holds one map at a time.

A map takes the free group whose size fits it best: the smallest that is large enough, else the
largest, which grows. A group whose last map was needed in the step before is still being written to
or read from DRAM; one without such a pending transfer goes first. A group is as large as its
largest map, so the banks are shared out in proportion to the groups' largest maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_neocpu.core.arena import Lifetime
from tvm_neocpu.core.errors import ScheduleError
from tvm_neocpu.scheduling.memory.allocation import Allocation, in_one_piece


@dataclass
class Group:
    """``size``: bytes of its largest map. ``busy_until``: the last step that needs its map."""

    size: int
    busy_until: int


def bank_groups(lifetimes: Sequence[Lifetime]) -> Allocation:
    """The groups side by side, without rounding to banks."""
    member, groups = assign_groups(lifetimes)
    begins = [sum(group.size for group in groups[:at]) for at in range(len(groups))]
    offsets = [begins[at] for at in member]
    return in_one_piece(lifetimes, offsets, sum(group.size for group in groups))


def assign_groups(lifetimes: Sequence[Lifetime]) -> tuple[list[int], list[Group]]:
    """The group of each map, and the groups."""
    groups: list[Group] = []
    member = [0] * len(lifetimes)
    for at in sorted(range(len(lifetimes)), key=lambda at: (lifetimes[at].first, at)):
        life = lifetimes[at]
        free = [place for place, group in enumerate(groups) if group.busy_until < life.first]
        if free:
            member[at] = min(free, key=lambda place: _fit(groups[place], life))
        else:
            member[at] = len(groups)
            groups.append(Group(0, -1))
        group = groups[member[at]]
        group.size, group.busy_until = max(group.size, life.size), life.last
    return member, groups


def share_banks(groups: Sequence[Group], banks: int) -> tuple[int, ...]:
    """Banks for each group, at least one, in proportion to the largest map of each.

    Each bank goes to the group with the most bytes for each of its banks (D'Hondt's method).
    Raises ScheduleError if there are more groups than banks.
    """
    if len(groups) > banks:
        raise ScheduleError(f"{len(groups)} bank groups do not fit {banks} banks")
    given = [1] * len(groups)
    for _ in range(banks - len(groups) if groups else 0):
        needy = max(range(len(groups)), key=lambda at: groups[at].size / given[at])
        given[needy] += 1
    return tuple(given)


def _fit(group: Group, life: Lifetime) -> tuple[bool, bool, int]:
    """Smaller is better: too small last, a pending transfer next, then bytes between them."""
    return group.size < life.size, group.busy_until == life.first - 1, abs(group.size - life.size)
