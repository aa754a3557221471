"""Keeps a calling thread away from cores where other threads of its process run, or are bound.

The caller of a network works beside the workers of its pool. Linux may leave it on a worker's core
while another core idles: both spin between loops, none ever sleeps, and the network takes twice the
time, at times for a whole process. Workers that TVM has bound to a core cannot give way.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from time import monotonic

from tvm_neocpu.core.cores import core_key

# Seconds between looks: Linux itself spreads new threads within some ms, and both at once would put
# them together again. A look takes some 50 us.
FIRST_WAIT, USUAL_WAIT = 0.02, 0.1
# Moves that do not last make looks rare: Linux puts the thread back beside a busy neighbour.
LONGEST_WAIT = 10.0
# In /proc/PID/stat, behind the name: the CPU that the thread was on last.
_PROCESSOR = 36

_core = lru_cache(maxsize=None)(core_key)


class _ThisThread(threading.local):
    """When the thread looks again, and how long it waits then; none before the first call, which
    starts the pool.
    """

    next_look = 0.0
    wait = 0.0


_this_thread = _ThisThread()


def step_aside() -> None:
    """Move the calling thread off a core that it shares, if its affinity mask has a better one.

    The mask is the same afterwards. Takes 0.1 us, and more once in `USUAL_WAIT`. A system that
    refuses leaves the thread where it is.
    """
    now = monotonic()
    this = _this_thread
    if now < this.next_look:
        return
    if not this.wait:
        this.wait = FIRST_WAIT
        this.next_look = now + FIRST_WAIT
        return
    has_moved = _look()
    this.next_look = now + this.wait
    if has_moved or this.wait < USUAL_WAIT:
        this.wait = min(2 * this.wait, LONGEST_WAIT)
    else:
        this.wait = max(this.wait / 2, USUAL_WAIT)


def better_cpus(here: int, mask: set[int], taken: Counter[str]) -> set[int]:
    """The CPUs of the mask on whose cores the fewest other threads are; none if ``here`` is one.

    ``taken`` counts threads by `core_key`: a hyper-thread of a worker's core is no better.
    """
    fewest = min(taken[_core(cpu)] for cpu in mask)
    if taken[_core(here)] == fewest:
        return set()
    return {cpu for cpu in mask if taken[_core(cpu)] == fewest}


def _look() -> bool:
    """Whether the thread has moved."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    try:
        mask = os.sched_getaffinity(0)
        if len(mask) == 1:
            return False
        better = better_cpus(_cpu_here(), mask, Counter(map(_core, _taken_cpus())))
        if better:
            try:
                os.sched_setaffinity(0, better)  # Linux moves the thread before the call returns
            finally:  # after Ctrl-C too
                os.sched_setaffinity(0, mask)
    except (OSError, ValueError, IndexError):  # a container without /proc, or one that refuses
        return False
    return bool(better)


def _cpu_here() -> int:
    with open("/proc/thread-self/stat") as file:
        return _state_and_cpu(file.read())[1]


def _taken_cpus() -> Iterator[int]:
    """The CPU of each other thread of this process that runs now, or that may use no other CPU."""
    me = threading.get_native_id()
    for name in os.listdir("/proc/self/task"):
        if int(name) == me:
            continue
        try:
            with open(f"/proc/self/task/{name}/stat") as file:
                state, cpu = _state_and_cpu(file.read())
            if state == "R" or len(os.sched_getaffinity(int(name))) == 1:
                yield cpu
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue


def _state_and_cpu(stat: str) -> tuple[str, int]:
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[_PROCESSOR])
