"""Running in a process that was forked after TVM had run in its parent.

TVM 0.27 keeps a pool of workers for each calling thread. ``fork`` copies the memory of the pool but
none of its threads: the calling thread goes on in the child, and its first parallel loop would wait
for ever. A thread without a pool gets a new one, so the child runs its networks on a stand-in, one
thread of its own. A call then costs two more switches between threads. ``fork`` itself waits until
the calls of other threads have ended, because TVM may hold mutexes during a call.

The end of the child's main thread cannot be mended from here: TVM's pool joins its workers when its
thread ends, and they do not exist. Children that end by ``os._exit`` are right; all children of
`multiprocessing` do. A child of a bare ``os.fork`` that ends like a main program hangs or aborts.

Tried, in vain: ``tvm::runtime::threading::ResetThreadPool`` in the child. It waits for ever for
workers that slept on a condition variable. It also joins threads whose stacks glibc 2.36 has
unmapped: SIGSEGV with four threads, while two worked.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from tvm_neocpu.runtime.process.threads import thread_count

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor  # 3 ms that only a forked child needs

T = TypeVar("T")
RLock: TypeAlias = "threading._RLock"


class Forkable(Protocol):
    """An object whose state may belong to threads that do not exist in a forked child."""

    def after_fork_in_child(self) -> None: ...


class _ThisThread(threading.local):
    """``has_pool``: this thread may have a pool. ``is_orphan``: the pool's workers do not exist."""

    has_pool = False
    is_orphan = False


class _ThisFork(threading.local):
    """``wanted``: what a thread's fork locks, in order. ``held``: one entry for each of them that
    it has locked. ``raised``: by signals' handlers meanwhile. Other threads may fork, too.
    """

    def __init__(self) -> None:
        self.wanted: list[RLock] = []
        self.held: list[bool] = []
        self.raised: list[BaseException] = []


_this_thread = _ThisThread()
_this_fork = _ThisFork()
_stand_in: ThreadPoolExecutor | None = None
_forkables: WeakSet[Forkable] = WeakSet()
_fork_locks: WeakKeyDictionary[RLock, int] = WeakKeyDictionary()
_ages = count()
_registering = threading.RLock()  # held from before a fork until after it
_lock = threading.RLock().__class__.__enter__
# ``fork`` returns within this, once the last function of `os.register_at_fork` has.
_BACK_SECONDS = 0.01


def fork_lock() -> RLock:
    """A lock that ``fork`` waits for: no child inherits a half-done state of what it guards.

    Guard only work that ends by itself, never a wait for another thread: that thread may be the one
    that forks. Who holds it may lock older ones. The same thread may lock it twice.
    """
    lock = threading.RLock()
    with _registering:
        _fork_locks[lock] = next(_ages)
    return lock


# For imports at a first call: a child whose parent was in the midst of one waits for it for ever.
late_imports = fork_lock()


def call(lock: RLock, function: Callable[..., T], *args: object) -> T:
    """Call a function that runs parallel loops of TVM, on a thread whose pool has workers.

    ``fork`` waits until the call ends.
    """
    if _this_thread.is_orphan:
        from concurrent.futures import wait

        future = _the_stand_in().submit(call, lock, function, *args)
        try:
            return future.result()
        finally:
            wait([future])  # after Ctrl-C too: the caller must hold its lock until the call ends
    _this_thread.has_pool = True
    with lock:
        return function(*args)


def renew_after_fork(forkable: Forkable) -> None:
    """Have ``forkable.after_fork_in_child()`` called in every child, as long as it lives."""
    with _registering:
        _forkables.add(forkable)


def _the_stand_in() -> ThreadPoolExecutor:
    global _stand_in
    if _stand_in is None:
        from concurrent.futures import ThreadPoolExecutor

        _stand_in = ThreadPoolExecutor(max_workers=1, thread_name_prefix="neocpu-stand-in")
    return _stand_in


def _warn_of_the_end() -> None:
    """Name the cause of a hang, in a child that ends like a main program."""
    from logging import getLogger

    getLogger("tvm_neocpu").warning(
        "process %d was forked after a network had run, and may hang now that it ends: "
        "end it with os._exit(), or use multiprocessing",
        os.getpid(),
    )


def _before_fork() -> None:
    """Lock everything. Ctrl-C would end the wait and be forgotten: Python reports what is raised
    here, and forks. So the wait begins anew, and Ctrl-C is repeated after the fork.
    """
    while True:
        try:
            if _lock_all():
                return
        except BaseException as error:
            _this_fork.raised.append(error)
        _unlock_all()  # also where a call that has ended by now has made another lock


def _lock_all() -> bool:
    """Whether all locks are held now, those made meanwhile too."""
    with _registering:
        ages = dict(_fork_locks)
    # A session's call may lock its library, which is older: in the other order each would wait.
    wanted, held = _this_fork.wanted, _this_fork.held
    wanted[:] = [*sorted(ages, key=ages.__getitem__, reverse=True), _registering]
    # One call of C: no signal's handler runs between a lock and its entry in the list.
    held.extend(map(_lock, wanted))
    return len(ages) == len({**ages, **_fork_locks})


def _unlock_all() -> None:
    held = _this_fork.held
    locks = _this_fork.wanted[: len(held)]
    held.clear()
    for lock in locks:
        lock.release()


def _after_fork() -> None:
    """The parent's part. For Ctrl-C during `fork` itself Python raises as this begins, reports
    that, and goes on; called once more, this unlocks.
    """
    _unlock_all()
    raised = list(_this_fork.raised)
    _this_fork.raised.clear()
    for error in raised:
        if not isinstance(error, KeyboardInterrupt):
            raise error  # Python reports it
    if raised:
        repeat_ctrl_c()


def repeat_ctrl_c() -> None:
    """Send it to the main thread again, once ``fork`` has returned there."""
    import signal

    main = threading.main_thread().ident
    if main is not None:
        repeated = threading.Timer(_BACK_SECONDS, signal.pthread_kill, (main, signal.SIGINT))
        repeated.daemon = True
        repeated.start()


def _after_fork_in_child() -> None:
    global _stand_in
    _this_fork.raised.clear()
    _unlock_all()
    _stand_in = None  # an inherited one has no thread
    if _this_thread.has_pool and thread_count() > 1:  # TVM runs loops of one thread in place
        _this_thread.is_orphan = True
        atexit.register(_warn_of_the_end)
    for forkable in list(_forkables):
        forkable.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )
    os.register_at_fork(after_in_parent=_after_fork)
