"""TVM's worker processes, with the two things its executor lacks: waiting that Ctrl-C interrupts,
and an end to workers that are still busy."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

import psutil
from tvm.support.popen_pool import PopenPoolExecutor

from tvm_neocpu.tuning.measuring.build_worker import worker_initializer

Result = TypeVar("Result")

# TVM's compiler leaks memory; a worker is replaced after so many candidates.
USES = 64


class Scratch:
    """A folder for artifacts, in which each of our workers notes its process id."""

    def __init__(self) -> None:
        # A worker that is just being killed may still write into it.
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_neocpu-", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)

    def initializer(self, environment: Mapping[str, str]) -> Callable[[], None]:
        return worker_initializer(self.path, environment)

    def kill_workers(self) -> None:
        """End the workers that noted their id here; no other child of this process."""
        for child in psutil.Process().children():
            if not (self.path / f"{child.pid}.pid").exists():
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def close(self) -> None:
        self.kill_workers()
        self._folder.cleanup()


class WorkerPool:
    """Calls functions in at most ``count`` worker processes, each under a time limit.

    A call that takes longer raises TimeoutError from its future, one whose process dies
    ChildProcessError; either costs that call alone.
    """

    def __init__(self, count: int, timeout: float, scratch: Scratch) -> None:
        self._scratch = scratch
        self._pool = PopenPoolExecutor(
            max_workers=count,
            timeout=timeout,
            # One candidate a worker and core: nothing in a build runs in parallel.
            initializer=scratch.initializer({"TVM_NUM_THREADS": "1"}),
            maximum_process_uses=USES,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def map(self, function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Future[Any]]:
        """One finished future for each call's arguments."""
        futures = [self._pool.submit(function, *arguments) for arguments in calls]
        try:
            wait(futures)
        except BaseException:
            abandon(futures, self._scratch)
            raise
        return futures

    def close(self) -> None:
        self._pool.shutdown(wait=True)


def call_interruptibly(scratch: Scratch, function: Callable[..., Result], *args: Any) -> Result:
    """Call a function of TVM's that waits for a worker, so that Ctrl-C reaches us.

    Raised inside a callback of TVM's, KeyboardInterrupt would come out as a RuntimeError.
    """
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(function, *args)
        try:
            return future.result()
        except BaseException:
            abandon([future], scratch)
            raise


def abandon(futures: list[Future[Any]], scratch: Scratch) -> None:
    """Cancel what has not begun, and kill workers until nothing waits for them any more.

    TVM's own way to stop them would wait for the answer of a busy one.
    """
    for future in futures:
        future.cancel()
    while not all(future.done() for future in futures):
        scratch.kill_workers()
        wait(futures, timeout=0.1)
