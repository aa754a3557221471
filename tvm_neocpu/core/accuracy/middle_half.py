"""Readings without the fastest and the slowest quarter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def middle_half(readings: Sequence[T], seconds: Callable[[T], float]) -> list[T]:
    """The readings between the quartiles of ``seconds``, in that order; never none of some.

    Means of them add up: those of a run's calls to the run's, as medians do not, since two calls
    are rarely slow in the same run.
    """
    ordered = sorted(readings, key=seconds)
    cut = len(ordered) // 4
    return ordered[cut : len(ordered) - cut]
