"""The part of a session's time that is kept for building contenders and for the proof."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm_neocpu.tuning.in_network.processes.verify import PAIRS

# In builds of the start without its kernels, which are kept on disk: each pair of the proof begins
# anew, contenders are built by processes that are there. And what the pairs take to be timed: the
# first one may need twice as many turns as another.
PROOF_BUILDS, CONTENDER_BUILDS, PROOF_SECONDS = 1.1 * PAIRS, 0.5, 4.0 * (PAIRS + 1)
# Of the time that is left after the start, the most that is kept. On a busy machine the end may
# need more: better a session that ends late than one that measures nothing.
MOST_RESERVED = 0.5


@dataclass(frozen=True)
class Reserve:
    """``build`` is what building the network took, in seconds; ``share`` how much of the need is
    kept.
    """

    build: float = 0.0
    share: float = 1.0

    @classmethod
    def fitting(cls, build: float, left: float) -> Reserve:
        """All that is needed, or half of the seconds that are left."""
        needed = cls(build).seconds
        return cls(build, max(0.0, min(1.0, left * MOST_RESERVED / needed)))

    @property
    def contenders(self) -> float:
        """Seconds for building contenders."""
        return self.share * self.build * CONTENDER_BUILDS

    @property
    def proof(self) -> float:
        """Seconds for a proof: the least that it takes, or its share."""
        return self.share * (self.build * PROOF_BUILDS + PROOF_SECONDS)

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.contenders + self.proof

    @property
    def late(self) -> float:
        """Seconds by which a session that proves a plan may end after its budget."""
        return Reserve(self.build).seconds - self.seconds


@dataclass
class Pace:
    """Whether there is time for one more of what was done before; ``left`` says how many seconds.

    The first is always begun while there is time at all, another one while at least half of what
    the last one took is left: on a busy machine one round of a large network takes minutes.
    """

    left: Callable[[], float]
    _before: float | None = None

    def allows(self) -> bool:
        """Called before each of them."""
        left = self.left()
        took = 0.0 if self._before is None else self._before - left
        self._before = left
        return left == math.inf or left > max(0.0, took) / 2


def about_the_start(reserve: Reserve, left: float) -> str:
    """What a session says when it has started, with ``left`` seconds to go; mostly nothing."""
    if left <= 0:
        return f"starting took {-left:.0f} s more than the whole budget: give a larger one"
    if reserve.late < 1:
        return ""
    return f"starting took long: a proof may end up to {reserve.late:.0f} s after the budget"
