"""Which cores a session runs on, and TVM's pool of workers on exactly these.

TVM 0.27 keeps a pool for each *calling thread*. A thread that calls ``runtime.config_threadpool``
before its first parallel loop gets a pool of as many workers as it names cores, and no other pool
changes. So a session runs networks on threads of its own, each with its own cores.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from numbers import Integral
from typing import TypeGuard, TypeVar

from tvm_neocpu.core.errors import SessionError
from tvm_neocpu.core.machine.cores import allowed_cpus, physical_cores
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.runtime.ffi.tvm_library import runtime_function
from tvm_neocpu.runtime.process.forking import late_imports
from tvm_neocpu.runtime.process.threads import TooManyThreadsWarning, one_of_each_core

# TVM's number for "all threads may use all the cores named": the kernel moves a thread away from a
# core that a neighbour keeps busy, where a thread bound to one core would wait.
_SHARE_ALL_CORES = -3

# More streams than any machine has cores: the system may start some ten thousand threads.
MOST_STREAMS = 1024

Result = TypeVar("Result")

_lock = threading.Lock()
_claims: Counter[int] = Counter()


class _ThisThread(threading.local):
    workers: tuple[int, ...] = ()


_this_thread = _ThisThread()


def free_cores(count: int) -> list[int]:
    """So many CPUs, one of each physical core: those that fewest sessions use."""
    with _lock:
        return sorted(sorted(one_of_each_core(), key=lambda cpu: (_claims[cpu], cpu))[:count])


def split_cores(cpus: Sequence[int], threads: int, streams: int) -> list[list[int]]:
    """CPUs for each stream: ``threads`` in all, at least one for each stream.

    More streams than CPUs begin again with the first.
    """
    each = max(1, threads // streams)
    return [
        [cpus[(stream * each + place) % len(cpus)] for place in range(each)]
        for stream in range(streams)
    ]


def claim_cores(groups: Sequence[Sequence[int]]) -> Callable[[], None]:
    """Note that a session uses these CPUs; returns what ends that."""
    used = Counter(cpu for group in groups for cpu in group)
    with _lock:
        _claims.update(used)

    def release() -> None:
        with _lock:
            _claims.subtract(used)

    return release


def checked_threads(threads: object, cores: Sequence[int] | None = None) -> int:
    """The number of threads to run on: as many as there are cores for ``None``, and never more.

    ``cores`` are the CPUs that the caller named. Raises SessionError for what is no positive whole
    number; warns of too many.
    """
    there = min(physical_cores(), len(one_of_each_core())) if cores is None else len(cores)
    if threads is None:
        return there
    count = positive_count("threads", threads)
    if count > there:
        known = "is" if there == 1 else "are"
        warnings.warn(
            f"{count} threads were asked for, and there {known} {plural(there, 'core')}: "
            f"running on {there}",
            TooManyThreadsWarning,
            stacklevel=2,
        )
    return min(count, there)


def checked_streams(streams: object, threads: int) -> int:
    """The number of streams. Raises SessionError for what is no positive whole number; warns of
    more than there are threads: the others' calls wait for a core, and take longer.
    """
    count = positive_count("streams", streams)
    if count > MOST_STREAMS:
        raise SessionError(f"streams is at most {MOST_STREAMS}, not {count}: each has a thread")
    if count > threads:
        warnings.warn(
            f"{count} streams on {plural(threads, 'thread')}: streams that share a core take turns",
            TooManyThreadsWarning,
            stacklevel=2,
        )
    return count


def checked_cores(cores: Sequence[int]) -> list[int]:
    """The CPUs that a caller names. Raises SessionError for one that the process may not use."""
    are_numbers = isinstance(cores, Iterable) and not isinstance(cores, str)
    if not are_numbers or not all(map(_is_whole, cores := list(cores))):
        raise SessionError(f"cores= lists numbers of CPUs, not {cores!r}")
    named = list(map(int, cores))
    foreign = sorted(set(named) - allowed_cpus())
    if foreign or not named or len(set(named)) < len(named):
        known = ", ".join(map(str, sorted(allowed_cpus())))
        raise SessionError(f"cores={named}: name each once, of those this process has: {known}")
    return named


def positive_count(name: str, value: object) -> int:
    """A positive whole number. Raises SessionError, which names the option."""
    if not _is_whole(value) or value < 1:
        raise SessionError(f"{name} is a positive whole number, not {value!r}")
    return int(value)


def _is_whole(value: object) -> TypeGuard[Integral]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def run_here_on(cpus: Sequence[int]) -> None:
    """Give the calling thread a pool of its own: one worker for each CPU, all free to move among
    them. For a thread that has not run a parallel loop of TVM yet.
    """
    _bind_here(cpus)  # workers inherit it, whatever TVM binds
    _, _this_thread.workers = workers_begun(len(cpus) - 1, lambda: use_here(cpus, len(cpus)))


def workers_begun(count: int, work: Callable[[], Result]) -> tuple[Result, tuple[int, ...]]:
    """The result, and the system's numbers of the ``count`` workers that began meanwhile; none
    where other threads began, too: nobody knows which ones are the workers.
    """
    before = _threads()
    found = work()
    began = tuple(sorted(_threads() - before))
    return found, began if len(began) == count else ()


def workers_here() -> tuple[int, ...]:
    """The system's numbers of the calling thread's workers; none where they are not known."""
    return _this_thread.workers


def use_here(cpus: Sequence[int], threads: int) -> None:
    """Have the calling thread's next loops run on so many threads of its pool, itself included.

    ``cpus`` are those of `run_here_on`. It takes some microseconds.
    """
    names = [str(cpu) for cpu in cpus[:threads]]
    runtime_function("runtime.config_threadpool")(_SHARE_ALL_CORES, threads, names)
    if threads < len(cpus):
        _bind_here(cpus)  # TVM bound this thread to the CPUs named


def leave_core(core: int, cpus: Sequence[int]) -> None:
    """Have the calling thread go to another of its ``cpus``; it may move on from there."""
    others = [cpu for cpu in cpus if cpu != core]
    if others:
        _bind_here(others)
        _bind_here(cpus)


def core_here() -> int | None:
    """The CPU that the calling thread is on, where the system tells."""
    return _sched_getcpu()() if hasattr(os, "sched_setaffinity") else None


@cache
def _sched_getcpu() -> Callable[[], int | None]:
    """The C library's; it takes less than 1 us."""
    with late_imports:
        import ctypes  # a session that always uses all threads needs none of this

    try:
        found: Callable[[], int | None] = ctypes.PyDLL(None).sched_getcpu
    except (AttributeError, OSError):
        return lambda: None
    return found


def _bind_here(cpus: Sequence[int]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)  # of this thread alone


def _threads() -> set[int]:
    """The system's numbers of this process's threads, where they can be bound."""
    try:
        return {int(task) for task in os.listdir("/proc/self/task")}
    except OSError:
        return set()
