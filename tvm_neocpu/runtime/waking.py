"""Workers that sleep are woken on cores of their own.

A worker of TVM's looks for work for some milliseconds after a call (`threads.SPINS`), and sleeps
then. Linux wakes it beside its waker where the other core's virtual CPU has halted, for it seems to
be taken; both then share one core for the whole call. So the first call after a pause binds each
worker to a core for as long as it lasts:

    calls    ---a---b---         ------c------      ---d---
    workers  free              bound           free
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tvm_neocpu.runtime.cores import core_here, workers_here

# Who finds work within so many seconds was not asleep; some more, and a call binds in vain, which
# takes 2 us a worker.
AWAKE_SECONDS = 0.002

Result = TypeVar("Result")


class Waking:
    """When the last call of a stream's thread ended, and where the next one finds its workers."""

    def __init__(self) -> None:
        self._ended = 0.0

    def call(self, cpus: Sequence[int], run: Callable[[], Result]) -> tuple[Result, float]:
        """The result of a call on all of ``cpus``, and its seconds."""
        start = time.perf_counter()
        workers = workers_here() if start - self._ended > AWAKE_SECONDS else ()
        try:
            _spread(workers, cpus)
            result = run()
        finally:
            _bind(workers, [cpus] * len(workers))
            self._ended = time.perf_counter()
        return result, self._ended - start


def _spread(workers: Sequence[int], cpus: Sequence[int]) -> None:
    """Bind each to one of the cores that the calling thread is not on."""
    if not workers:
        return
    here = core_here()
    others = [[cpu] for cpu in cpus if cpu != here]
    if len(others) == len(workers):
        _bind(workers, others)


def _bind(workers: Sequence[int], places: Sequence[Sequence[int]]) -> None:
    for worker, cpus in zip(workers, places, strict=True):
        try:
            os.sched_setaffinity(worker, cpus)
        except OSError:  # the worker is gone, or the core is not this process's any more
            return
