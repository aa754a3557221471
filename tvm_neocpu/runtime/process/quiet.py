"""A filter for lines that TVM and LLVM write to stderr and that tell a user nothing."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

_STDERR = 2
_NOISE = (
    # TVM 0.27 writes it for every weight that it saves or loads, once a VM was made of the module.
    rb"executable\.cc:\d+: Warning: Scope (Saving|Loaded):"
    # LLVM writes it for a wrong -mattr or -mcpu; our own error says it in one line.
    rb"|is not a recognized (feature|processor) for this target"
)


class _Diversion:
    """File descriptor 2 diverted into memory while anybody wants silence.

    The descriptor belongs to the process, not to a thread. The first to enter diverts it and the
    last to leave restores it, in whichever order they come and go.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._saved: int | None = None

    def enter(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._divert()
            self._depth += 1

    def leave(self) -> None:
        with self._lock:
            self._depth = max(0, self._depth - 1)  # a child forked inside starts again from 0
            if self._depth == 0:
                self._restore()

    def after_fork_in_child(self) -> None:
        """Restore stderr: the threads that wanted silence do not exist in the child.

        What the parent's threads wrote comes out in the parent.
        """
        self._lock = threading.Lock()
        self._depth = 0
        if self._saved is not None:
            self._point_back(self._saved)

    def _divert(self) -> None:
        if sys.stderr is not None:
            sys.stderr.flush()
        try:
            self._saved = os.dup(_STDERR)
        except OSError:  # stderr is closed: there is nothing to silence
            return
        memory = _memory()
        os.dup2(memory, _STDERR)
        os.close(memory)

    def _restore(self) -> None:
        if self._saved is None:
            return
        if sys.stderr is not None:
            sys.stderr.flush()
        written = _content(_STDERR)
        self._point_back(self._saved)
        if kept := _without_noise(written):
            os.write(_STDERR, kept)

    def _point_back(self, saved: int) -> None:
        os.dup2(saved, _STDERR)
        os.close(saved)
        self._saved = None


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Drop known noise of TVM and LLVM from stderr.

    Whatever else the process writes to file descriptor 2 meanwhile, from any thread, comes out at
    the end; where the system has no ``memfd_create`` (macOS, Windows) it is lost.
    """
    _diversion.enter()
    try:
        yield
    finally:
        _diversion.leave()


def _without_noise(written: bytes) -> bytes:
    if not written:
        return b""
    import re  # most loads write nothing

    lines = written.splitlines(keepends=True)
    return b"".join(line for line in lines if not re.search(_NOISE, line))


def _memory() -> int:
    """A descriptor to write to and read back; /dev/null where the system has no such memory."""
    if not hasattr(os, "memfd_create"):
        return os.open(os.devnull, os.O_RDWR)
    import fcntl  # Unix alone has it

    memory = os.memfd_create("stderr")
    # Linux moves the position of such a file without a lock, and one of two lines would be lost.
    fcntl.fcntl(memory, fcntl.F_SETFL, os.O_APPEND)
    return memory


def _content(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return b"".join(iter(lambda: os.read(descriptor, 1 << 16), b""))


_diversion = _Diversion()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_diversion.after_fork_in_child)
