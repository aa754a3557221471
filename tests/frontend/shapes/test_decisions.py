"""What a file decides lies on a line over all batches, or it decides by its batch."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.frontend.shapes.decisions import (
    Decisions,
    decides_alike,
    note_decision,
    note_results,
    noted_decisions,
)


def at(n: int, truth: bool = True, rest: float = 7, most: int = 10**6) -> Decisions:
    with noted_decisions() as noted:
        note_decision("Not", [np.array(not truth)], np.array(truth))
        note_decision("Identity", [np.array(n)], np.array(n))  # no value of truth
        note_results({"end": np.array([min(n, most), 2**63 - 1]), "rest": np.array(rest)}, {})
        note_results({}, {"rows": (n * 49, 64), "batch first": (n, 3)})
    return noted


MANY = (1009, at(1009)), (1046, at(1046))


@pytest.mark.parametrize("batch", [1, 2, 20_011])
def test_a_line(batch: int) -> None:
    assert decides_alike(batch, at(batch), *MANY)
    assert not decides_alike(batch, at(batch + 1), *MANY)


def test_what_leaves_the_line() -> None:
    assert not decides_alike(1, at(1, truth=False), *MANY)
    assert not decides_alike(1, at(1, rest=8), *MANY)
    assert decides_alike(1, at(1, rest=0.5), (1009, at(1009, rest=0.5)), (1046, at(1046, rest=0.5)))
    few = (1009, at(1009, most=8)), (1046, at(1046, most=8))
    assert decides_alike(8, at(8, most=8), *few)
    assert not decides_alike(2, at(2, most=8), *few)


def comparing(n: int, operator: str, number: int, divisor: int | None = None) -> Decisions:
    left, right = np.array(n if divisor is None else n % divisor), np.array(number)
    found = {"Equal": np.equal, "Greater": np.greater, "Min": np.minimum}[operator](left, right)
    with noted_decisions() as noted:
        note_decision(operator, [left, right], found)
    return noted


@pytest.mark.parametrize(
    ("operator", "number", "divisor", "alike"),
    [
        ("Equal", 8, None, False),
        ("Equal", -1, None, True),
        ("Equal", 0, 4, False),
        ("Greater", 0, None, True),
        ("Greater", 30_000, None, False),
        ("Greater", 2**63 - 1, None, True),
        ("Min", 30_000, None, False),
        ("Min", 1, None, True),
    ],
)
def test_a_comparison_that_another_batch_decides(
    operator: str, number: int, divisor: int | None, alike: bool
) -> None:
    """``N == 8`` is false for all batches that are looked at, ``N mod 4 == 0`` too."""
    first, second = ((n, comparing(n, operator, number, divisor)) for n in (1009, 1046))
    others = [
        decides_alike(n, comparing(n, operator, number, divisor), first, second)
        for n in (1, 2, 20_011)
    ]
    assert all(others) is alike


def test_what_is_cast_to_a_truth_is_compared_with_0() -> None:
    def at_batch(n: int) -> Decisions:
        with noted_decisions() as noted:
            note_decision("Cast", [np.array(n - 8)], np.array(bool(n - 8)))
        return noted

    assert not decides_alike(1, at_batch(1), (1009, at_batch(1009)), (1046, at_batch(1046)))


def with_state(n: int, first: float = 0, rest: float = 0) -> Decisions:
    state = np.full((2, n, 3), rest)
    state[:, :1] = first
    found = at(n)
    found.constants["state"] = state
    return found


def test_a_state_of_each_image() -> None:
    many = (1009, with_state(1009)), (1046, with_state(1046))
    assert decides_alike(1, with_state(1), *many)
    assert not decides_alike(1, with_state(1, first=2), *many)
    assert not decides_alike(2, with_state(1), *many)
    others = (1009, with_state(1009, first=2)), (1046, with_state(1046, first=2))
    assert not decides_alike(1, with_state(1, first=2), *others)


def test_another_rank() -> None:
    found = at(1)
    found.shapes["batch first"] = np.array([3])
    assert not decides_alike(1, found, *MANY)


def test_nothing_is_noted_elsewhere() -> None:
    note_decision("Equal", [np.array(1), np.array(1)], np.array(True))
    with noted_decisions() as noted:
        pass
    note_results({"late": np.array(1)}, {})
    assert noted == Decisions()
