"""Worker processes: TVM's executor, made interruptible.

TVM's executor lacks two things: Ctrl-C does not interrupt the wait for a result, and nothing ends a
worker that is still busy.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

import psutil
from tvm.support.popen_pool import PopenPoolExecutor

Result = TypeVar("Result")

# TVM's compiler leaks memory: a worker is replaced after this many candidates.
MAX_USES = 64


class Scratch:
    """A folder for artifacts, in which each of our workers notes its process id."""

    def __init__(self) -> None:
        # A worker may still write into the folder while it is being killed.
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_neocpu-", ignore_cleanup_errors=True)
        self.path = Path(self._folder.name)

    def initializer(self, environment: Mapping[str, str]) -> Callable[[], None]:
        return worker_initializer(self.path, environment)

    def kill_workers(self) -> None:
        """End the workers that noted their id here, and no other child of this process."""
        for child in psutil.Process().children():
            if not (self.path / f"{child.pid}.pid").exists():
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def close(self) -> None:
        self.kill_workers()
        self._folder.cleanup()


class WorkerPool:
    """Calls functions in at most ``count`` worker processes, each call under a time limit.

    The future of a call that takes longer raises TimeoutError; the future of a call whose process
    dies raises ChildProcessError. Other calls are not affected.
    """

    def __init__(self, count: int, timeout: float, scratch: Scratch) -> None:
        self._scratch = scratch
        self._pool = PopenPoolExecutor(
            max_workers=count,
            timeout=timeout,
            # A worker builds one candidate at a time on one core: nothing in a build is parallel.
            initializer=scratch.initializer({"TVM_NUM_THREADS": "1"}),
            maximum_process_uses=MAX_USES,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def map(self, function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Future[Any]]:
        """Call ``function`` once for each tuple of arguments; the futures returned are finished."""
        futures = [self._pool.submit(function, *arguments) for arguments in calls]
        try:
            wait(futures)
        except BaseException:
            _abandon(futures, self._scratch)
            raise
        return futures

    def close(self) -> None:
        self._pool.shutdown(wait=True)


def call_interruptibly(scratch: Scratch, function: Callable[..., Result], *args: Any) -> Result:
    """Call a TVM function that waits for a worker, so that Ctrl-C reaches us.

    In a thread of its own: a KeyboardInterrupt raised inside a callback of TVM would come out as a
    RuntimeError.
    """
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(function, *args)
        try:
            return future.result()
        except BaseException:
            _abandon([future], scratch)
            raise


def worker_initializer(scratch: Path, environment: Mapping[str, str]) -> Callable[[], None]:
    """The first call in a worker: note its process id, take over our paths and ``environment``.

    The function is nested, so that cloudpickle sends it by value: a worker cannot import our
    modules before it has our ``sys.path``. It sets ``TVM_NUM_THREADS`` early enough, because TVM
    sizes its thread pool at the first parallel loop.
    """
    folder = str(scratch)
    settings = {**environment, "TMPDIR": folder}
    search_path = [entry or os.getcwd() for entry in sys.path]

    def initialise() -> None:
        import os
        import sys
        import tempfile

        with open(os.path.join(folder, f"{os.getpid()}.pid"), "w"):
            pass
        os.environ.update(settings)
        # Files of a killed worker disappear with the folder.
        tempfile.tempdir = folder
        sys.path[:] = search_path

    return initialise


def _abandon(futures: list[Future[Any]], scratch: Scratch) -> None:
    """Cancel the calls that have not begun; kill workers until no future is pending.

    TVM's own shutdown would wait for the answer of a busy worker.
    """
    for future in futures:
        future.cancel()
    while not all(future.done() for future in futures):
        scratch.kill_workers()
        wait(futures, timeout=0.1)
