"""Two builds of a network in one process, timed in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

Run = Callable[[], NDArray[np.float32]]


class InTurns(NamedTuple):
    """Median milliseconds of either build, and of the ratio first over second by rounds.

    ``quartiles`` are those of the ratio; ``difference`` is the largest one between the outputs, as
    a share of the largest output.
    """

    first_ms: float
    second_ms: float
    gain: float
    quartiles: list[float]
    difference: float

    def row(self, first: str, second: str) -> dict[str, Any]:
        """All of it for a report, with the names of both builds' times."""
        times = {first: self.first_ms, second: self.second_ms}
        shared = ("gain", "quartiles", "difference")
        return {**times, **{name: getattr(self, name) for name in shared}}


def runner(code: tvm.runtime.Module, data: NDArray[np.float32]) -> Run:
    """One inference, and its first output."""
    network, tensor = relax.VirtualMachine(code, tvm.cpu())["main"], tvm.runtime.tensor(data)

    def run() -> NDArray[np.float32]:
        result = network(tensor)
        return (result if hasattr(result, "numpy") else result[0]).numpy()

    return run


def in_turns(first: Run, second: Run, rounds: int) -> InTurns:
    """Both, one after the other, so often."""
    expected, found = first(), second()
    pairs = [(_seconds(first), _seconds(second)) for _ in range(rounds)]
    ratios = sorted(before / after for before, after in pairs)
    times = [statistics.median(column) * 1e3 for column in zip(*pairs, strict=True)]
    return InTurns(
        *times,
        gain=statistics.median(ratios),
        quartiles=[ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]],
        difference=float(np.abs(expected - found).max() / np.abs(expected).max()),
    )


def _seconds(run: Run) -> float:
    """Of one inference, after one that warms the caches."""
    run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
