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
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from tvm_neocpu.runtime.process.threads import thread_count
from tvm_neocpu.runtime.streams.cores import core_here, workers_begun

# Who finds work within so many seconds was not asleep; some more, and a call binds in vain, which
# takes 2 us a worker.
AWAKE_SECONDS = 0.002

Result = TypeVar("Result")
Places = Collection[int]


class Waking:
    """When the last call of a stream's thread ended, and where the next one finds its workers."""

    def __init__(self) -> None:
        self._ended = 0.0

    def call(
        self, workers: Sequence[int], cpus: Sequence[int], run: Callable[[], Result]
    ) -> tuple[Result, float]:
        """The result of a call on all of ``cpus``, and its seconds; no ``workers`` if unknown."""
        start = time.perf_counter()
        asleep = start - self._ended > AWAKE_SECONDS
        free = _spread(workers, cpus) if asleep and workers else {}
        try:
            result = run()
        finally:
            _bind(free)
            self._ended = time.perf_counter()
        return result, self._ended - start


class _Caller(threading.local):
    """A thread of the user's that runs classic modules: TVM makes its pool in the first run."""

    def __init__(self) -> None:
        self.looks = 2  # a first network may have no parallel loops; a look takes 40 us
        self.workers: tuple[int, ...] = ()
        self.cpus: tuple[int, ...] = ()
        self.waking = Waking()


_caller = _Caller()


def call_as_caller(run: Callable[..., Any], *args: Any) -> Any:
    """A call of a classic module, in the pool that TVM has for the calling thread."""
    me = _caller
    if me.looks:
        found, began = workers_begun(thread_count() - 1, lambda: run(*args))
        me.looks = 0 if began else me.looks - 1
        _know(me, began)
        return found
    if not me.workers:
        return run(*args)
    return me.waking.call(me.workers, me.cpus, lambda: run(*args))[0]


def _know(caller: _Caller, began: tuple[int, ...]) -> None:
    """Note the workers, unless TVM has bound them."""
    try:
        masks = {tuple(sorted(os.sched_getaffinity(worker))) for worker in began}
    except (AttributeError, OSError):
        return
    if len(masks) == 1 and len(cpus := masks.pop()) > len(began):
        caller.workers, caller.cpus = began, cpus


def _spread(workers: Sequence[int], cpus: Sequence[int]) -> dict[int, Places]:
    """Bind each to one of the cores that the calling thread is not on; where they were allowed."""
    here = core_here()
    others = [cpu for cpu in cpus if cpu != here]
    if len(others) != len(workers):
        return {}
    try:
        free: dict[int, Places] = {worker: os.sched_getaffinity(worker) for worker in workers}
    except OSError:  # one is gone
        return {}
    _bind({worker: (cpu,) for worker, cpu in zip(workers, others, strict=True)})
    return free


def _bind(places: Mapping[int, Places]) -> None:
    for worker, cpus in places.items():
        try:
            os.sched_setaffinity(worker, cpus)
        except OSError:  # it is gone, or the core is not this process's any more
            return
