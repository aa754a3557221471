"""Taking turns: two tuners on one machine would disturb each other's measurements.

    with measuring_turn(on_wait=print):
        ...measure...

The turn is a lock on a file in the user's data folder. It ends with the ``with`` block, or with the
process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from tvm_neocpu.tuning.database.folders.data_folder import data_folder
from tvm_neocpu.tuning.database.log import TuningLogWarning

# Text of the lock's file that is read: a process id and a command.
_MAX_HOLDER = 200

# Threads of one process take turns, too; a thread that has the turn may ask for it again.
_THREADS = RLock()
_held: list[int] = []


def _forget() -> None:
    """A forked child does not have its parent's turn, nor may it keep it when the parent ends."""
    global _THREADS
    _THREADS = RLock()
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_forget)


@contextmanager
def measuring_turn(on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Inside, no other process of this user measures on this machine.

    ``on_wait`` is called once, with a line that says who has the turn, before waiting begins;
    Ctrl-C ends the wait. Where no lock can be had (a read-only disk), a TuningLogWarning says so
    and nobody waits.
    """
    with _THREADS:
        if _held:
            yield
            return
        path = lock_file()
        try:
            handle = _open(path)
        except OSError as error:
            text = f"cannot take turns with other tuners, {path}: {error.strerror or error}"
            warnings.warn(text, TuningLogWarning, stacklevel=3)
            yield
            return
        _held.append(handle)
        try:
            _lock(handle, on_wait)
            yield
        finally:
            if handle in _held:  # a child that was forked inside has closed its own
                _held.remove(handle)
                os.close(handle)


def lock_file() -> Path:
    """The file that is locked; without a database it is in the system's folder for such files."""
    folder = data_folder()
    if folder is not None:
        return folder / "measuring.lock"
    return Path(tempfile.gettempdir()) / f"tvm_neocpu-{os.getuid()}-measuring.lock"


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


def _lock(handle: int, on_wait: Callable[[str], None] | None) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if on_wait is not None:
            on_wait(f"waiting for {_holder(handle)}, which measures on this machine")
        fcntl.flock(handle, fcntl.LOCK_EX)
    me = f"{os.getpid()} {Path(sys.argv[0]).name or 'python'}"
    os.ftruncate(handle, 0)
    os.pwrite(handle, me.encode(errors="replace")[:_MAX_HOLDER], 0)


def _holder(handle: int) -> str:
    """Who has the turn, as the process that has it wrote down."""
    words = os.pread(handle, _MAX_HOLDER, 0).decode(errors="replace").split(maxsplit=1)
    known = len(words) == 2 and words[0].isdecimal()
    return f"process {words[0]} ({words[1]})" if known else "another process"
