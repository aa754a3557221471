"""Every allocator runs the same tests: buffers of one time never share a byte."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.arena import ALIGNMENT, Lifetime, largest_live_set
from tvm_neocpu.core.errors import ScheduleError
from tvm_neocpu.scheduling.memory.bank_groups import Group, assign_groups, share_banks
from tvm_neocpu.scheduling.memory.table import ALLOCATORS

every_allocator = pytest.mark.parametrize("name", ALLOCATORS)
TIMES = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)
LIFETIMES = st.lists(
    st.builds(lambda size, time: Lifetime(size, *time), st.integers(1, 1000), TIMES), max_size=20
)


@every_allocator
@given(LIFETIMES)
def test_buffers_of_one_time_share_no_byte(name: str, lives: list[Lifetime]) -> None:
    found = ALLOCATORS[name](lives)
    for life, pieces in zip(lives, found.places, strict=True):
        assert sum(end - begin for begin, end in pieces) == life.size
        assert all(0 <= begin < end <= found.size for begin, end in pieces)
    for (one, mine), (other, theirs) in combinations(zip(lives, found.places, strict=True), 2):
        if one.meets(other):
            assert all(a[1] <= b[0] or b[1] <= a[0] for a in mine for b in theirs)


@every_allocator
@given(LIFETIMES)
def test_no_allocator_is_below_the_lower_bound(name: str, lives: list[Lifetime]) -> None:
    size = ALLOCATORS[name](lives).size
    padded = sum(-(-life.size // ALIGNMENT) * ALIGNMENT for life in lives)
    assert largest_live_set(lives) <= size <= padded


@given(LIFETIMES)
def test_the_tight_arena_is_never_larger_than_the_greedy_one(lives: list[Lifetime]) -> None:
    assert ALLOCATORS["arena"](lives).size <= ALLOCATORS["greedy-arena"](lives).size


@every_allocator
def test_a_chain_of_equal_maps_takes_two(name: str) -> None:
    chain = [Lifetime(640, at, at + 1) for at in range(6)]
    assert ALLOCATORS[name](chain).size == 2 * 640


def test_a_ring_keeps_what_lies_behind_a_long_lived_buffer() -> None:
    """Of the chain beside the skip connection nothing is freed before the skip is."""
    lives = [Lifetime(100, 0, 5), *(Lifetime(10, at, at + 1) for at in range(1, 5))]
    assert ALLOCATORS["circular"](lives).size == 140
    assert ALLOCATORS["bank-groups"](lives).size == 120


def test_a_group_without_a_pending_transfer_goes_first() -> None:
    """At step 3 two groups are free; that of the second map was busy until step 2."""
    lives = [Lifetime(8, 0, 1), Lifetime(8, 1, 2), Lifetime(8, 3, 3)]
    assert assign_groups(lives)[0] == [0, 1, 0]
    lives = [Lifetime(8, 0, 2), Lifetime(8, 1, 1), Lifetime(8, 3, 3)]
    assert assign_groups(lives)[0] == [0, 1, 1]


def test_the_group_that_fits_best_is_reused() -> None:
    lives = [Lifetime(100, 0, 0), Lifetime(10, 0, 0), Lifetime(8, 2, 2), Lifetime(50, 2, 2)]
    member, groups = assign_groups(lives)
    assert member == [0, 1, 1, 0]
    assert [group.size for group in groups] == [100, 10]


@pytest.mark.parametrize(
    ("sizes", "banks", "expected"),
    [
        ([100, 100], 8, (4, 4)),
        ([300, 100], 8, (6, 2)),
        ([1000, 1], 8, (7, 1)),
        ([1000, 1, 1], 3, (1, 1, 1)),
        ([5, 3], 7, (4, 3)),
    ],
)
def test_banks_in_proportion_to_the_largest_map(
    sizes: list[int], banks: int, expected: tuple[int, ...]
) -> None:
    assert share_banks([Group(size, 0) for size in sizes], banks) == expected


def test_more_groups_than_banks() -> None:
    with pytest.raises(ScheduleError, match="3 bank groups do not fit 2 banks"):
        share_banks([Group(1, 0)] * 3, 2)


def test_tvm_gives_a_small_tensor_no_huge_allocation() -> None:
    lives = [Lifetime(1600, 0, 0), Lifetime(99, 1, 1), Lifetime(100, 2, 2)]
    assert ALLOCATORS["whole-allocations"](lives).size == 1600 + 99
