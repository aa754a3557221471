"""How many threads a stream uses, over simulated machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.runtime.streams.pace import (
    DAEMON_SECONDS,
    MEMORY,
    MIN_WAIT,
    MUCH_SLOWER,
    RECENT,
    SLOWER,
    Pace,
    _Times,
    levels_of,
)


def calls(pace: Pace, seconds: Callable[[int], float], count: int) -> list[int]:
    """The threads of so many calls that take ``seconds(threads)``."""
    used = []
    for _ in range(count):
        used.append(pace.threads)
        pace.note(seconds(pace.threads))
    return used


def alone(threads: int) -> float:
    return 1.0 / threads


def one_core_is_taken(threads: int) -> float:
    """Two threads wait for a core that a neighbour has; one runs on the other core."""
    return {2: 4.0, 1: 1.0}[threads]


def test_levels() -> None:
    assert levels_of(1) == (1,)
    assert levels_of(2) == (2, 1)
    assert levels_of(8) == (8, 7, 4, 2, 1)


def test_alone_it_always_uses_all() -> None:
    assert set(calls(Pace(4), alone, 2000)) == {4}


def test_a_neighbour_comes_and_goes() -> None:
    pace = Pace(2)
    calls(pace, alone, 50)
    used = calls(pace, one_core_is_taken, 300)
    assert used.index(1) <= 30
    assert used.count(2) < 60, "trials are few"
    assert used[-1] == 1 or used[-5:].count(1) >= 1
    back = calls(pace, alone, 150)
    assert back[-20:] == [2] * 20


def test_a_neighbour_that_was_there_for_long_is_noticed_to_leave() -> None:
    """Soon, and the trials before cost little."""
    pace = Pace(2)
    calls(pace, alone, 50)
    used = calls(pace, one_core_is_taken, 3000)
    assert used[-1000:].count(2) <= 25
    assert calls(pace, alone, 100)[-5:] == [2] * 5


def test_a_machine_that_is_slower_altogether_keeps_its_threads() -> None:
    pace = Pace(2)
    calls(pace, alone, 50)
    used = calls(pace, lambda threads: 2.0 * alone(threads), 2000)
    assert used.count(1) < 40
    assert used[-100:] == [2] * 100


def test_many_neighbours_leave_few_threads() -> None:
    pace = Pace(8)
    calls(pace, alone, 50)

    def only_two_cores(threads: int) -> float:
        return alone(threads) if threads <= 2 else 3.0

    used = calls(pace, only_two_cores, 2000)
    assert used[-300:].count(2) > 200


def test_a_slow_while_before_does_not_delay_the_next_trial() -> None:
    """Fewer threads did not help then; a neighbour who comes later is another matter."""
    pace = Pace(2)
    calls(pace, alone, 50)
    calls(pace, lambda threads: 3.0 * alone(threads), 10)
    calls(pace, alone, 10)
    used = calls(pace, one_core_is_taken, 12)
    assert used[-3:] == [1] * 3


def test_one_quick_call_beside_a_neighbour_decides_nothing() -> None:
    """ResNet-50 on a Zen 4: milliseconds alone, then beside a process that computes."""
    pace = Pace(2)
    calls(pace, lambda _: 33.0, 50)
    beside = iter([196.0, 184.0, 54.0])
    used = calls(pace, lambda threads: next(beside) if threads == 2 else 54.0, 9)
    assert used == [2, 2, 1, 1, 1, 1, 1, 1, 1]


def test_two_much_slower_calls_are_enough() -> None:
    pace = Pace(2)
    calls(pace, alone, 50)
    assert calls(pace, one_core_is_taken, 6) == [2, 2, 1, 1, 1, 1]


def test_a_daemon_that_disturbs_two_short_calls_changes_nothing() -> None:
    """MobileNet-v2 of 3.5 ms on a Zen 4."""
    pace, used = Pace(2), []
    for number in range(500):
        used.append(pace.threads)
        pace.note(9e-3 if number % 50 >= 48 else 7e-3 * alone(pace.threads))
    assert set(used) == {2}


def test_two_threads_that_share_the_free_core_are_no_gain() -> None:
    """ResNet-50 on a Zen 4: on one thread 58 ms in a bad while, on two threads of one core 55."""
    pace = Pace(2)
    calls(pace, lambda _: 27.5, 50)
    calls(pace, lambda threads: {2: 140.0, 1: 53.0}[threads], 20)
    used = calls(pace, lambda threads: {2: 55.0, 1: 58.0}[threads], 200)
    assert used.count(2) <= 3 * 200 // MIN_WAIT
    assert calls(pace, lambda threads: {2: 27.5, 1: 53.0}[threads], 80)[-5:] == [2] * 5


@pytest.mark.parametrize("one, two, beside", [(53.0, 27.5, 215.0), (14.0, 7.5, 95.0)])
def test_two_threads_are_back_within_some_tens_of_calls(
    one: float, two: float, beside: float
) -> None:
    """The worst calls that a trial saw: ResNet-50 and ResNet-18 on a Zen 4."""
    pace = Pace(2)
    calls(pace, lambda _: two, 50)
    calls(pace, lambda threads: {2: beside, 1: one}[threads], 1000)
    used = calls(pace, lambda threads: {2: two, 1: one}[threads], 100)
    assert used.index(2) <= 90
    assert used[-5:] == [2] * 5


def test_one_disturbed_call_does_not_end_a_trial_of_more_threads() -> None:
    pace = Pace(2)
    calls(pace, lambda _: 11.5, 50)
    calls(pace, lambda threads: {2: 60.0, 1: 14.0}[threads], 10)
    disturbed = iter([15.5])
    times = {1: 14.0, 2: 11.5}
    used = calls(pace, lambda n: next(disturbed, times[2]) if n == 2 else times[1], 60)
    first = used.index(2)
    assert used[first:] == [2] * (60 - first)


def test_trials_of_calls_that_are_shorter_than_a_time_slice_cost_little() -> None:
    """LeNet: 50 us on two threads, 90 on one, 4 ms and more beside a neighbour."""
    pace, used, spent = Pace(2), [], 0.0
    calls(pace, lambda _: 50e-6, 50)
    times = {2: 8e-3, 1: 90e-6}
    for _ in range(20_000):
        used.append(pace.threads)
        spent += times[used[-1]]
        pace.note(times[used[-1]])
    assert used.count(2) > 5
    assert spent < 1.1 * len(used) * times[1]


def test_a_trial_that_came_too_soon_is_repeated_soon() -> None:
    """The kernel takes a while to give a single thread the free core."""
    pace = Pace(2)
    calls(pace, alone, 50)
    calls(pace, lambda threads: 4.0, 8)
    used = calls(pace, one_core_is_taken, 20)
    assert used[-5:] == [1] * 5


@pytest.mark.parametrize("outlier", [10.0, 1000.0])
def test_single_slow_calls_change_nothing(outlier: float) -> None:
    pace, used = Pace(2), []
    for number in range(500):
        used.append(pace.threads)
        pace.note(outlier if number % 50 == 49 else alone(pace.threads))
    assert set(used) == {2}


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=3 * MEMORY))
@settings(max_examples=30)
def test_the_best_of_the_remembered_times(seconds: list[float]) -> None:
    times = _Times()
    for each in seconds:
        times.add(each)
    newest = seconds[-RECENT:]
    now = sorted(newest)[len(newest) // 2]
    assert times.now() == now
    best = min(seconds[-MEMORY:])
    assert times.best() == best
    lost = sum(newest[-1:-3:-1]) - 2 * best
    much = min(newest[-2:]) > MUCH_SLOWER * best and lost > DAEMON_SECONDS
    assert times.are_slow() == (len(newest) == RECENT and (now > SLOWER * best or much))
