"""A core that another process computes on is left, by a stream that uses fewer threads than cores.

A thread that sleeps between calls is often woken on the core that it had, beside a process that
computes there, and Linux leaves both there for seconds while another core is idle: a ResNet-18 of
14 ms on one thread took 26 in all 85 calls of one run (Zen 4, two cores).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tvm_neocpu.runtime.streams.cores import core_here, leave_core

# A thread that got less of its call's time shared its core: two that share one get half each. A
# system's daemon takes less, and to leave for its sake may mean to meet the neighbour.
ALONE = 0.75

Result = TypeVar("Result")


class Crowd:
    """Which core a stream's thread met another process on, in its last call."""

    def __init__(self) -> None:
        self._began: int | None = None
        self._crowded: int | None = None

    def away(self, cpus: Sequence[int], run: Callable[[], Result]) -> tuple[Result, float]:
        """A call on a core that the last one did not share, and its seconds."""
        self.avoid(cpus)
        start, computed = time.perf_counter(), time.thread_time()
        result = run()
        seconds, computed = time.perf_counter() - start, time.thread_time() - computed
        self.note(seconds, computed)
        return result, seconds

    def avoid(self, cpus: Sequence[int]) -> None:
        """Before a call: leave the core if the last call met another process on it."""
        self._began = core_here()
        if self._began is not None and self._began == self._crowded:
            leave_core(self._began, cpus)
            self._began = core_here()

    def note(self, seconds: float, computed: float) -> None:
        """After a call of ``seconds``, in which the calling thread ran for ``computed``.

        It computes or spins all the time, so that others had the rest. Where the system moved it
        during the call, nobody knows which core was crowded.
        """
        shared = computed < ALONE * seconds
        self._crowded = self._began if shared and core_here() == self._began else None
