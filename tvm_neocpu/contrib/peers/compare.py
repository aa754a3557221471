"""Timing engines against each other: in turns, since a machine's speed drifts within minutes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.runner import Runner

# Timed runs in a turn.
BURST = 5
# The engine before spins on the cores of the next one: TVM through 300,000 yields, which take a
# third of a second where another wants the core. After 0.1 s ONNX Runtime took 37 ms behind two
# processes of ours; alone 10.
PAUSE_SECONDS = 0.5
# Of the largest value. Winograd's 4x4 outputs err below 4e-5, its 6x6 outputs by one digit more.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Timing:
    """Seconds of every timed run of an engine, and its error against the reference."""

    seconds: tuple[float, ...]
    error: float

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def differs(self) -> bool:
        """Whether the outputs are not the reference's."""
        return not self.error <= TOLERANCE


def compare(
    runners: Mapping[str, Runner], runs: int, reference: str | None = None
) -> dict[str, Timing]:
    """Time each runner ``runs`` times, A B C A B C, and compare its outputs with ``reference``'s.

    The last runner is the reference by default.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    while min(map(len, seconds.values())) < runs:
        for name, runner in runners.items():
            time.sleep(PAUSE_SECONDS)
            seconds[name] += runner.burst(BURST)
    wanted = runners[reference or list(runners)[-1]].outputs()
    return {
        name: Timing(tuple(seconds[name][:runs]), largest_error(runner.outputs(), wanted))
        for name, runner in runners.items()
    }


def largest_error(found: list[NDArray[Any]], reference: list[NDArray[Any]]) -> float:
    """The largest difference over the largest value, of all outputs.

    Infinite if shapes differ, or if one side has a NaN or an infinity that the other has not.
    """
    if [array.shape for array in found] != [array.shape for array in reference]:
        return float("inf")
    pairs = zip(found, reference, strict=True)
    return max((_relative(one, other) for one, other in pairs), default=0.0)


def _relative(found: NDArray[Any], reference: NDArray[Any]) -> float:
    one, other = found.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.max(np.abs(other[finite]))) or 1.0
    return float(np.max(np.abs(one[finite] - other[finite]))) / scale
