"""Timing engines against each other: in turns, since a machine's speed drifts within minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from tvm_neocpu.contrib.peers.quantised import Expected
from tvm_neocpu.contrib.peers.runner import Runner
from tvm_neocpu.core.largest_error import largest_error

# Timed runs in a turn.
BURST = 5
# The engine before spins on the cores of the next one: TVM through 300,000 yields, which take a
# third of a second where another wants the core. After 0.1 s ONNX Runtime took 37 ms behind two
# processes of ours; alone 10.
PAUSE_SECONDS = 0.5
# Of the largest value. Winograd's 4x4 outputs err below 4e-5, its 6x6 outputs by one digit more.
TOLERANCE = 1e-3
# An output of smaller values is compared as if this were in it: ONNX Runtime's sigmoid errs by 7e-8
# however small its result is.
SMALLEST_SCALE = 1e-4


@dataclass(frozen=True)
class Timing:
    """Seconds of every timed run of an engine, its error against the reference, and the allowed."""

    seconds: tuple[float, ...]
    error: float
    tolerance: float = TOLERANCE

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def differs(self) -> bool:
        """Whether the outputs are not the reference's."""
        return not self.error <= self.tolerance


def compare(
    runners: Mapping[str, Runner],
    runs: int,
    reference: str | None = None,
    expected: Expected | None = None,
) -> dict[str, Timing]:
    """Time each runner ``runs`` times, A B C A B C, and compare its outputs with ``reference``'s.

    The last runner is the reference by default; it is right by definition. ``expected`` are other
    outputs to compare with.
    """
    reference = reference or list(runners)[-1]
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    while min(map(len, seconds.values())) < runs:
        for name, runner in runners.items():
            time.sleep(PAUSE_SECONDS)
            seconds[name] += runner.burst(BURST)
    wanted = expected or Expected(runners[reference].outputs(), TOLERANCE)
    return {
        name: Timing(
            tuple(seconds[name][:runs]),
            largest_error(runner.outputs(), wanted.outputs, SMALLEST_SCALE),
            math.inf if name == reference else wanted.tolerance,
        )
        for name, runner in runners.items()
    }
