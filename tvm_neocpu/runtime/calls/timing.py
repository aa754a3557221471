"""Timing calls, and the times as TVM's classic scripts read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# A core that slept for half a second takes three times as long for its first 4 ms (Zen 3).
WARM_UP = 0.01


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds per run, one number for each repeat; the fields are those of TVM's class."""

    results: Sequence[float]

    @property
    def mean(self) -> float:
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        return float(np.std(self.results))

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = " ".join(f"{f'{name} (ms)':^12}" for name in names)
        row = " ".join(f"{1e3 * getattr(self, name):^12.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{row}"


def warm_up(call: Callable[[], object]) -> None:
    """Calls that do not count, until a core that slept is as fast as it becomes."""
    end = time.perf_counter() + WARM_UP
    while time.perf_counter() < end:
        call()


def time_calls(
    call: Callable[[], object], number: int, repeat: int, min_repeat_ms: float = 0.0
) -> BenchmarkResult:
    """``repeat`` results, each the mean of ``number`` calls, after one that is not counted.

    A repeat that takes less than ``min_repeat_ms`` is made again, with more calls.
    """
    call()
    results = []
    for _ in range(repeat):
        while True:
            start = time.perf_counter()
            for _ in range(number):
                call()
            seconds = time.perf_counter() - start
            if seconds * 1e3 >= min_repeat_ms:
                break
            number = _enough(number, seconds * 1e3, min_repeat_ms)
        results.append(seconds / number)
    return BenchmarkResult(results)


def _enough(number: int, took_ms: float, min_repeat_ms: float) -> int:
    """More calls, so many that they should take as long as wanted."""
    return max(number + 1, int(number * min_repeat_ms / max(took_ms, 1e-3) * 1.1) + 1)
