"""Engines take turns; whose outputs are the reference, and what counts as different."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.contrib.peers import compare as module
from tvm_neocpu.contrib.peers.compare import (
    SMALLEST_SCALE,
    TOLERANCE,
    Timing,
    compare,
    excuse_saturation,
    largest_error,
)

NAN, INF = float("nan"), float("inf")


class Fake:
    """An engine whose answer is known."""

    def __init__(self, *answer: float) -> None:
        self.answer = np.array(answer, "float32")

    def burst(self, count: int) -> list[float]:
        return [0.1] * count

    def outputs(self) -> list[np.ndarray]:
        return [self.answer]


@pytest.mark.parametrize(
    ("found", "reference", "error"),
    [
        ((1.0, NAN), (1.0, NAN), 0.0),
        ((1.0, INF, -INF), (1.0, INF, -INF), 0.0),
        ((1.5, NAN), (2.0, NAN), 0.25),
        ((1.0, NAN), (1.0, 2.0), INF),
        ((1.0, INF), (1.0, 2.0), INF),
        ((1.0, 2.0), (1.0, NAN), INF),
        ((1.0, INF), (1.0, -INF), INF),
        ((1.0, INF), (1.0, NAN), INF),
        ((NAN, NAN), (NAN, NAN), 0.0),
        ((), (), 0.0),
    ],
)
def test_what_is_not_finite_counts_unless_the_reference_has_it(
    found: tuple[float, ...], reference: tuple[float, ...], error: float
) -> None:
    assert largest_error([np.array(found)], [np.array(reference)]) == pytest.approx(error)


def test_small_errors_are_tolerated() -> None:
    assert not Timing((0.1,), TOLERANCE / 2).differs
    assert Timing((0.1,), TOLERANCE * 2).differs
    assert Timing((0.1,), INF).differs
    assert Timing((0.1,), NAN).differs


def test_saturation_excuses_peers_up_to_twice_the_references_error() -> None:
    timings = {
        "ours": Timing((0.1,), 0.07, 0.02),
        "first": Timing((0.1,), 0.05, INF),
        "close": Timing((0.1,), 0.01, 0.02),
        "other": Timing((0.1,), 0.09, 0.02),
        "broken": Timing((0.1,), 0.11, 0.02),
    }
    found = excuse_saturation(timings, "first", "ours")
    assert [name for name, timing in found.items() if timing.differs] == ["ours", "broken"]
    assert [name for name, timing in found.items() if timing.saturates] == ["other"]


def test_the_reference_is_the_last_runner_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    runners = {"ours": Fake(1, 2), "first": Fake(1, 2), "last": Fake(1, 4)}
    assert [timing.error for timing in compare(runners, 1).values()] == [0.5, 0.5, 0]
    named = compare(runners, 1, "first")
    assert [timing.error for timing in named.values()] == [0, 0, 1]


def test_runners_take_turns() -> None:
    turns: list[str] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def burst(self, count: int) -> list[float]:
            turns.append(self.name)
            return [0.1] * count

        def outputs(self) -> list[np.ndarray]:
            return [np.array([1.0, 2.0])]

    timings = compare({"a": Fake("a"), "b": Fake("b")}, runs=7)
    assert [len(timing.seconds) for timing in timings.values()] == [7, 7]
    assert turns == ["a", "b", "a", "b"]


def test_errors_are_relative_to_the_largest_value() -> None:
    one, other = [np.array([0.0, 10.0])], [np.array([1.0, 10.0])]
    assert largest_error(one, other) == pytest.approx(0.1)
    assert largest_error(one, one) == 0
    assert largest_error(one, [np.zeros(3)]) == float("inf")


def test_what_is_tiny_is_compared_as_if_something_larger_were_in_it() -> None:
    """Engines' sigmoids err by 1e-7 where the exact results are a few 1e-7."""
    found, reference = [np.array([4e-7, 1e-7])], [np.array([4e-7, 2e-7])]
    assert largest_error(found, reference) == pytest.approx(0.25)
    assert largest_error(found, reference, SMALLEST_SCALE) <= TOLERANCE
    assert largest_error([np.array([2.01e-4])], [np.array([2e-4])], SMALLEST_SCALE) > TOLERANCE
    assert largest_error([np.array([2.0])], [np.array([1.0])], SMALLEST_SCALE) == 1


def test_engines_are_compared_turn_by_turn_where_the_machine_drifts() -> None:
    slower = [(1.0 + turn) for turn in range(6) for _ in range(5)]  # six bursts of five runs
    ours = Timing(tuple(0.9 * seconds for seconds in slower), 0.0)
    ratio = ours.over(Timing(tuple(slower), 0.0))
    assert ratio.value == pytest.approx(0.9)
    assert ratio.is_below_one
