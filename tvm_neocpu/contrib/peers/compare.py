"""Timing engines against each other: in turns, since a machine's speed drifts within minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from tvm_neocpu.contrib.peers.quantised import Expected
from tvm_neocpu.contrib.peers.runner import Runner
from tvm_neocpu.core.accuracy.largest_error import largest_error
from tvm_neocpu.tuning.in_network.ratios import Ratio, paired

# Timed runs in a turn.
BURST = 5
# The engine before spins on the cores of the next one. TVM by itself does so for 300,000 yields, a
# third of a second where another wants the core: after 0.1 s ONNX Runtime took 37 ms behind two
# processes of ours, which then did so, and alone 10.
PAUSE_SECONDS = 0.5
# How much more than the reference's own kernels a peer may err whose int8 sums saturate, too.
SATURATED = 2.0
# Of the largest value. Winograd's 4x4 outputs err below 4e-5, its 6x6 outputs by one digit more.
TOLERANCE = 1e-3
# The same in bf16: networks of random weights add up the rounding of all their layers. OpenVINO's
# Inception-v3 errs by 3e-2, root mean square.
BF16_TOLERANCE = 0.2
# An output of smaller values is compared as if this were in it: ONNX Runtime's sigmoid errs by 1e-7
# however small its result is.
SMALLEST_SCALE = 5e-4


@dataclass(frozen=True)
class Timing:
    """Seconds of every timed run of an engine, its error against the reference, and the allowed.

    ``saturated`` is the error up to which int8 sums that saturate explain it; 0 where none do.
    """

    seconds: tuple[float, ...]
    error: float
    tolerance: float = TOLERANCE
    saturated: float = 0.0

    @property
    def median(self) -> float:
        return median(self.seconds)

    def over(self, other: Timing) -> Ratio:
        """The time of this engine over that of another one of the same comparison, turn by turn.

        Medians of all runs say less where the machine's speed drifts: the engines of one turn share
        it.
        """
        return paired(self._turns, other._turns)

    @property
    def _turns(self) -> list[float]:
        bursts = range(0, len(self.seconds), BURST)
        return [median(self.seconds[first : first + BURST]) for first in bursts]

    @property
    def differs(self) -> bool:
        """Whether the outputs are not the reference's."""
        return not self.error <= max(self.tolerance, self.saturated)

    @property
    def saturates(self) -> bool:
        """Whether the outputs are the reference's but for sums that saturate."""
        return self.tolerance < self.error <= self.saturated


def compare(
    runners: Mapping[str, Runner],
    runs: int,
    reference: str | None = None,
    expected: Expected | None = None,
    tolerance: float = TOLERANCE,
    pause: float | None = None,
) -> dict[str, Timing]:
    """Time each runner ``runs`` times, A B C A B C, and compare its outputs with ``reference``'s.

    The last runner is the reference by default; it is right by definition. ``expected`` are other
    outputs to compare with, ``tolerance`` is for those of the reference. ``pause``, in seconds
    (default: PAUSE_SECONDS), comes before a turn: runners without threads of their own need none.
    """
    reference = reference or list(runners)[-1]
    pause = PAUSE_SECONDS if pause is None else pause
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    while min(map(len, seconds.values())) < runs:
        for name, runner in runners.items():
            time.sleep(pause)
            seconds[name] += runner.burst(BURST)
    wanted = expected or Expected(runners[reference].outputs(), tolerance)
    return {
        name: Timing(
            tuple(seconds[name][:runs]),
            largest_error(runner.outputs(), wanted.outputs, SMALLEST_SCALE),
            math.inf if name == reference else wanted.tolerance,
        )
        for name, runner in runners.items()
    }


def excuse_saturation(
    timings: Mapping[str, Timing], reference: str, strict: str
) -> dict[str, Timing]:
    """Timings of a quantised network where int8 sums saturate, those of the reference too.

    Every engine but ``strict`` may err by twice as much as the reference does.
    """
    bound = SATURATED * timings[reference].error
    return {
        name: timing if name in (reference, strict) else replace(timing, saturated=bound)
        for name, timing in timings.items()
    }
