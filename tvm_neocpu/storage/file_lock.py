"""A lock that processes and threads share: held on an empty file, gone with whoever holds it.

The cache's entries and the tuning logs have one each. `filelock` 4 is not used: its import waits
for a fork that has begun, and a fork waits for builds (:mod:`.runtime.fork_gate`). The first build
of a process, which imported it, and a fork beside it waited for each other.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is locked
    fcntl = None  # type: ignore[assignment]

_POLL_SECONDS = 0.02


class FileLock:
    """A lock on the file ``path``, which exists while somebody holds it or waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1
        self._owner = 0

    def acquire(self, patience: float) -> bool:
        """Whether it is held now: waits for at most ``patience`` seconds. Raises OSError."""
        if fcntl is None:
            return True
        until = time.monotonic() + patience
        while not self._try():
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def release(self) -> None:
        """Remove the file and let others in; nothing where it is not held.

        A child that was forked meanwhile has the handle, too: the lock is its parent's.
        """
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        if self._owner == os.getpid():
            with contextlib.suppress(OSError):
                if self._is_there(handle):  # else somebody removed it, and the name is another's
                    self.path.unlink()
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing does not unlock what a child has open
        os.close(handle)

    def _try(self) -> bool:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_there(handle):
                self._handle, self._owner = handle, os.getpid()
                return True
        except BlockingIOError:
            pass
        finally:
            if self._handle != handle:
                os.close(handle)
        return False

    def _is_there(self, handle: int) -> bool:
        """Whether the file still has its name: who held it may have removed it meanwhile."""
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            return False
