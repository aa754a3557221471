"""Threads that compile kernels for the thread that builds a network; a fork waits for neither."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from tvm_neocpu.runtime.process.fork_gate import building, may_pause, pausing

T = TypeVar("T")


class KernelThreads:
    """An executor whose jobs are inside the gate of forks, each for itself."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max(1, count))

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """``work(*args)`` in one of the threads."""
        return self._pool.submit(_inside if may_pause() else _call, work, args)

    def map(self, work: Callable[..., T], *each: Iterable[Any]) -> list[T]:
        """What ``work`` makes of all arguments, in order."""
        jobs = [self.submit(work, *args) for args in zip(*each, strict=True)]
        return [result(job) for job in jobs]

    def leave(self) -> None:
        """Drop what no thread has begun, and wait for nothing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def end(self) -> None:
        """Wait for all."""
        with pausing():
            self._pool.shutdown(wait=True)


class Backlog(Generic[T]):
    """What waits for ``threads``, each of which takes up to ``most`` at once.

    It takes less as the backlog runs out, so that all threads end at about the same time.
    """

    def __init__(self, threads: int, most: int) -> None:
        self._threads = threads
        self._most = most
        self._waiting: deque[T] = deque()

    def add(self, item: T) -> None:
        self._waiting.append(item)

    def take(self) -> list[T]:
        """In order; nothing where others took all."""
        taken: list[T] = []
        with suppress(IndexError):  # other threads take, too
            for _ in range(max(1, min(self._most, len(self._waiting) // (2 * self._threads)))):
                taken.append(self._waiting.popleft())
        return taken


@contextmanager
def kernel_threads(count: int) -> Iterator[KernelThreads]:
    """Threads that have ended when this does."""
    threads = KernelThreads(count)
    try:
        yield threads
    finally:
        threads.end()


def result(job: Future[T]) -> T:
    """What the job comes to. A fork may happen meanwhile."""
    if job.done():
        return job.result()
    with pausing():
        return job.result()


def _inside(work: Callable[..., T], args: tuple[Any, ...]) -> T:
    with building():
        return work(*args)


def _call(work: Callable[..., T], args: tuple[Any, ...]) -> T:
    return work(*args)
