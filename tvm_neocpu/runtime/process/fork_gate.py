"""A fork waits until builds in other threads pause.

A child has none of its parent's other threads. What they were about stays as it was for ever: TVM's
and LLVM's mutexes are locked, modules half imported. So whoever builds is inside this gate, and a
fork waits until all others are out. They are out at the end of a build, and in its pauses: while a
build waits for its threads, for a lock, or after a pass. Nobody enters while a fork waits.

    builds      in -- pass -- out, in -- pass -- out ............ in -- pass
    kernels     in -- kernel ------------- out .................. in -- kernel
    forks                       wait ...........  fork

The gate is the first that a fork waits for. At a fork `concurrent.futures` and `logging` take locks
that builds need, and functions for a fork are called in reverse order of registration: so the gate
registers its own once these are imported.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tvm_neocpu.runtime.process.forking import late_imports, repeat_ctrl_c

# The longest pass or kernel takes some seconds, on a busy machine ten times as long. Who waits
# longer goes on: a build may wait for the thread that forks.
PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.001


class _ThisFork(threading.local):
    """``began``: this thread forks, and the gate saw it begin. ``was_inside``: whether it builds,
    and may pause. ``raised``: by signals' handlers while it waited.
    """

    began = False
    was_inside: bool | None = None

    def __init__(self) -> None:
        self.raised: list[BaseException] = []


# By thread: whether it may pause. A thread enters the first one and then looks at the second one; a
# fork does so the other way round. One of them sees the other, without a lock to inherit.
_inside: dict[int, bool] = {}
_forks: dict[int, None] = {}
_this_fork = _ThisFork()
_renewed: list[Callable[[], None]] = []
_registered = False


@contextmanager
def building(pauses: bool = True) -> Iterator[None]:
    """Have forks of other threads wait until this ends or pauses.

    Without ``pauses`` this thread may hold what a fork waits for later (:func:`.fork_lock`), and
    threads that work for it need not enter.
    """
    me = threading.get_ident()
    before = _inside.get(me)
    if before is not None:
        _inside[me] = before and pauses
        try:
            yield
        finally:
            _inside[me] = before
        return
    _register()
    try:
        _enter(me, pauses)
        yield
    finally:
        _inside.pop(me, None)


@contextmanager
def pausing() -> Iterator[None]:
    """Let forks happen meanwhile, while this thread waits for others."""
    me = threading.get_ident()
    if not _inside.get(me):
        yield
        return
    del _inside[me]
    try:
        yield
    finally:
        _enter(me, True)


def pause() -> None:
    """Let a fork that waits happen now."""
    if _forks:
        with pausing():
            pass


def may_pause() -> bool:
    """Whether threads that work for this one have to enter for themselves."""
    return _inside.get(threading.get_ident(), True)


def after_fork_in_child(renew: Callable[[], None]) -> None:
    """Have ``renew()`` called in every child, for what a build's pause leaves behind."""
    _renewed.append(renew)


def _enter(me: int, pauses: bool) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        _inside[me] = pauses
        if not _forks or time.monotonic() > until:
            return
        del _inside[me]
        time.sleep(_POLL_SECONDS)


def _register() -> None:
    global _registered
    if not _registered:
        with late_imports:
            import concurrent.futures.thread  # noqa: F401
            import logging  # noqa: F401

            if not _registered and hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=_before_fork,
                    after_in_parent=_after_fork,
                    after_in_child=_after_fork_in_child,
                )
            _registered = True


def _before_fork() -> None:
    """Wait for other threads' builds. Python ignores what is raised here, and forks: so Ctrl-C is
    repeated after the fork.
    """
    _this_fork.began = True
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            _wait_for_builds(until)
            return
        except BaseException as error:
            _this_fork.raised.append(error)


def _wait_for_builds(until: float) -> None:
    me = threading.get_ident()
    _forks[me] = None
    if me in _inside:
        _this_fork.was_inside = _inside[me]
        _inside.pop(me)
    while _inside:
        if time.monotonic() > until:
            _warn()
            return
        time.sleep(_POLL_SECONDS)


def _after_fork() -> None:
    if not _this_fork.began:
        return  # the gate was registered in the midst of this fork
    _this_fork.began = False
    me = threading.get_ident()
    _forks.pop(me, None)
    was_inside, _this_fork.was_inside = _this_fork.was_inside, None
    if was_inside is not None:
        _enter(me, was_inside)
    raised = list(_this_fork.raised)
    _this_fork.raised.clear()
    for error in raised:
        if not isinstance(error, KeyboardInterrupt):
            raise error  # Python reports it
    if raised:
        repeat_ctrl_c()


def _after_fork_in_child() -> None:
    if not _this_fork.began:
        return  # the gate was registered in the midst of this fork
    _this_fork.began = False
    _forks.clear()
    _inside.clear()
    was_inside, _this_fork.was_inside = _this_fork.was_inside, None
    if was_inside is not None:
        _inside[threading.get_ident()] = was_inside
    _this_fork.raised.clear()
    for renew in _renewed:
        renew()


def _warn() -> None:
    from logging import getLogger

    getLogger("tvm_neocpu").warning(
        "process %d forks while another thread builds and does not pause: the child may hang if "
        "it builds",
        os.getpid(),
    )
