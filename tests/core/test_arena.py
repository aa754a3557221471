"""Buffers in one piece of memory: never two in one place at one time, and close together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core import arena
from tvm_neocpu.core.arena import (
    ALIGNMENT,
    Lifetime,
    Offsets,
    largest_live_set,
    place,
    place_tightly,
)


def lifetimes(most: int, largest: int = 1000) -> st.SearchStrategy[list[Lifetime]]:
    times = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)
    one = st.builds(lambda size, time: Lifetime(size, *time), st.integers(1, largest), times)
    return st.lists(one, max_size=most)


Placed = Callable[[list[Lifetime]], Offsets]


@pytest.mark.parametrize("placed", [place, place_tightly])
@given(lifetimes(most=20))
def test_buffers_of_one_time_never_overlap(placed: Placed, buffers: list[Lifetime]) -> None:
    offsets, size = placed(buffers)
    assert all(at % ALIGNMENT == 0 for at in offsets)
    assert all(at + buffer.size <= size for at, buffer in zip(offsets, buffers, strict=True))
    for (a, one), (b, other) in combinations(zip(offsets, buffers, strict=True), 2):
        if one.meets(other):
            assert a + one.size <= b or b + other.size <= a


@given(lifetimes(most=30))
def test_the_size_lies_between_what_one_step_and_what_all_steps_need(
    buffers: list[Lifetime],
) -> None:
    _, size = place(buffers)
    needed = [sum(b.size for b in buffers if b.first <= at <= b.last) for at in range(10)]
    padded = sum(-(-b.size // ALIGNMENT) * ALIGNMENT for b in buffers)
    assert max(needed) <= size <= padded


@given(lifetimes(most=5, largest=4).map(lambda found: [in_lines(buffer) for buffer in found]))
def test_close_to_the_smallest_arena(buffers: list[Lifetime]) -> None:
    """Of five buffers, at most a third more than the best order of placing them takes."""
    best = min(first_fit(order) for order in permutations(buffers))
    assert best <= place(buffers)[1] <= best * 4 / 3


@given(lifetimes(most=12))
def test_many_sequences_are_never_worse_than_one(buffers: list[Lifetime]) -> None:
    assert largest_live_set(buffers) <= place_tightly(buffers)[1] <= place(buffers)[1]


def test_greedy_by_size_leaves_a_gap_that_another_sequence_does_not() -> None:
    drawn = [(576, 5, 6), (512, 0, 7), (64, 4, 6), (704, 2, 2), (576, 0, 3), (256, 3, 6)]
    buffers = [Lifetime(*each) for each in drawn]
    assert place(buffers)[1] == 2048
    assert place_tightly(buffers)[1] == largest_live_set(buffers) == 1792


@given(lifetimes(most=12))
def test_no_placement_takes_less_than_the_bound(buffers: list[Lifetime]) -> None:
    least = arena._least_bytes(buffers)
    assert largest_live_set(buffers) <= least <= place_tightly(buffers)[1]


def test_all_but_the_highest_buffer_are_padded() -> None:
    buffers = [Lifetime(100, 0, 0), Lifetime(30, 0, 0), Lifetime(200, 1, 1)]
    assert arena._least_bytes(buffers[:2]) == 128 + 64 - 34
    assert arena._least_bytes(buffers) == 200 == place_tightly(buffers)[1]


def test_a_search_that_goes_round_in_a_circle_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [
        (256, 1, 4),
        (128, 2, 2),
        (256, 0, 2),
        (320, 1, 2),
        (256, 2, 5),
        (320, 1, 1),
        (64, 0, 2),
        (256, 0, 3),
    ]
    buffers = [Lifetime(*each) for each in drawn]
    tried: list[Offsets] = []
    placed = arena._placed

    def counted(*arguments: Any) -> Offsets:
        tried.append(placed(*arguments))
        return tried[-1]

    monkeypatch.setattr(arena, "_placed", counted)
    _, size = place_tightly(buffers, rounds=10_000)
    assert size == min(size for _, size in tried) > arena._least_bytes(buffers)
    assert len(tried) < 1000


def in_lines(buffer: Lifetime) -> Lifetime:
    return Lifetime(buffer.size * ALIGNMENT, buffer.first, buffer.last)


def first_fit(order: tuple[Lifetime, ...]) -> int:
    """The arena's size when each buffer in turn takes the lowest place that is free."""
    placed: list[tuple[int, Lifetime]] = []
    for buffer in order:
        busy = [(at, other) for at, other in placed if other.meets(buffer)]
        spots = [0, *(at + other.size for at, other in busy)]
        at = next(
            spot
            for spot in sorted(spots)
            if all(spot + buffer.size <= a or a + other.size <= spot for a, other in busy)
        )
        placed.append((at, buffer))
    return max((at + buffer.size for at, buffer in placed), default=0)


def test_a_chain_takes_its_two_largest_neighbours() -> None:
    sizes = [640, 3200, 640, 640, 2560, 1280]
    chain = [Lifetime(size, at, at + 1) for at, size in enumerate(sizes)]
    assert place(chain)[1] == 3840


def test_nothing_takes_nothing() -> None:
    assert place([]) == ([], 0)


@pytest.mark.parametrize(
    ("other", "expected"), [((0, 2), True), ((3, 4), True), ((4, 5), False), ((0, 1), False)]
)
def test_lifetimes_include_both_ends(other: tuple[int, int], expected: bool) -> None:
    assert Lifetime(1, 2, 3).meets(Lifetime(1, *other)) is expected
