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


@dataclass(frozen=True)
class Timing:
    """Seconds of every timed run of an engine, and its error against the reference."""

    seconds: tuple[float, ...]
    error: float

    @property
    def median(self) -> float:
        return median(self.seconds)


def compare(runners: Mapping[str, Runner], runs: int) -> dict[str, Timing]:
    """Time each runner ``runs`` times, A B C A B C, and compare outputs with the last one's.

    The last is the reference, so that ours, the first, is measured against a peer if there is one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    while min(map(len, seconds.values())) < runs:
        for name, runner in runners.items():
            time.sleep(PAUSE_SECONDS)
            seconds[name] += runner.burst(BURST)
    reference = list(runners.values())[-1].outputs()
    return {
        name: Timing(tuple(seconds[name][:runs]), largest_error(runner.outputs(), reference))
        for name, runner in runners.items()
    }


def largest_error(found: list[NDArray[Any]], reference: list[NDArray[Any]]) -> float:
    """The largest difference over the largest value, of all outputs; infinite if shapes differ."""
    if [array.shape for array in found] != [array.shape for array in reference]:
        return float("inf")
    pairs = zip(found, reference, strict=True)
    return max((_relative(one, other) for one, other in pairs), default=0.0)


def _relative(found: NDArray[Any], reference: NDArray[Any]) -> float:
    if not reference.size:
        return 0.0
    scale = float(np.max(np.abs(reference))) or 1.0
    return float(np.max(np.abs(found.astype(np.float64) - reference))) / scale
