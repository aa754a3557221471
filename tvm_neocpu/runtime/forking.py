"""Running in a process that was forked after TVM had run in its parent.

TVM 0.27 keeps a pool of workers for each calling thread. ``fork`` copies the memory of the pool but
none of its threads: the calling thread goes on in the child, and its first parallel loop would wait
for ever. A thread without a pool gets a new one, so the child runs its networks on a stand-in, one
thread of its own. A call then costs two more switches between threads.

The end of the child's main thread cannot be mended from here, because TVM's pool joins its workers
when its thread ends. A child that ends by ``os._exit`` is right, as all of `multiprocessing` do; a
child of a bare ``os.fork`` that ends like a main program hangs or aborts there. Tried, in vain:
calling ``tvm::runtime::threading::ResetThreadPool`` in the child. It waits for ever for workers
that slept on their condition variable, and it joins threads whose stacks glibc has unmapped
(SIGSEGV with four threads; with two it worked).
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Protocol, TypeVar
from weakref import WeakSet

from tvm_neocpu.runtime.threads import thread_count

T = TypeVar("T")

_LOG = logging.getLogger("tvm_neocpu")


class Forkable(Protocol):
    """Something with a lock, or other state of threads that do not exist in a forked child."""

    def after_fork_in_child(self) -> None: ...


class _ThisThread(threading.local):
    """``has_pool``: TVM made this thread a pool. ``is_orphan``: a fork left its workers behind."""

    has_pool = False
    is_orphan = False


_this_thread = _ThisThread()
_stand_in: ThreadPoolExecutor | None = None
_forkables: WeakSet[Forkable] = WeakSet()


class ProcessLock:
    """A lock between the threads of one process: free in a forked child, whoever held it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_after_fork(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()


def call(function: Callable[..., T], *args: object) -> T:
    """Call what runs TVM's parallel loops, on a thread whose pool has workers."""
    if _this_thread.is_orphan:
        future = _the_stand_in().submit(function, *args)
        try:
            return future.result()
        finally:
            wait([future])  # Ctrl-C ends no call: the caller's lock holds until it is over
    _this_thread.has_pool = True
    return function(*args)


def renew_after_fork(forkable: Forkable) -> None:
    """Have ``forkable.after_fork_in_child()`` called in every child, as long as it lives."""
    _forkables.add(forkable)


def _the_stand_in() -> ThreadPoolExecutor:
    global _stand_in
    if _stand_in is None:
        _stand_in = ThreadPoolExecutor(max_workers=1, thread_name_prefix="neocpu-stand-in")
    return _stand_in


def _warn_of_the_end() -> None:
    """Name the cause of a hang, in a child that ends like a main program."""
    _LOG.warning(
        "process %d was forked after a network had run, and may hang now that it ends: "
        "end it with os._exit(), or use multiprocessing",
        os.getpid(),
    )


def _after_fork_in_child() -> None:
    global _stand_in
    _stand_in = None  # an inherited one has no thread
    if _this_thread.has_pool and thread_count() > 1:  # TVM runs loops of one thread in place
        _this_thread.is_orphan = True
        atexit.register(_warn_of_the_end)
    for forkable in list(_forkables):
        forkable.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
