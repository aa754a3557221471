"""Engines take turns, and their outputs are compared."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.contrib.peers.compare import compare, largest_error


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
