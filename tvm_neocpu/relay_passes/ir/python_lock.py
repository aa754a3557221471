"""The lock that makes importing and building safe in threads, and in children that are forked."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from types import TracebackType

from tvm import relax
from tvm.te.tag import TagScope

from tvm_neocpu.runtime.process.fork_gate import after_fork_in_child, building, pausing


class _Held(threading.local):
    """A gate that was entered for each time that this thread holds the lock."""

    def __init__(self) -> None:
        self.gates: list[AbstractContextManager[None]] = []


class _PythonLock:
    """A lock whose holders are inside the gate of forks. The same thread may lock it twice."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held = _Held()
        after_fork_in_child(self._renew)

    def __enter__(self) -> None:
        gate = building()
        gate.__enter__()
        try:
            if not self._lock.acquire(blocking=False):
                with pausing():  # the holder may be pausing until a fork has happened
                    self._lock.acquire()
        except BaseException:
            gate.__exit__(None, None, None)
            raise
        self._held.gates.append(gate)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()
        self._held.gates.pop().__exit__(None, None, None)

    def _renew(self) -> None:
        """In a child: forget what threads that do not exist had under construction."""
        if not self._held.gates:
            self._lock = threading.RLock()
            relax.BlockBuilder._stack.clear()
            TagScope._current = None


# TVM's Python keeps what is under construction in class attributes, one for all threads: the stack
# of BlockBuilder and the tag of te.tag_scope. Two threads that build at once take each other's.
PYTHON_LOCK = _PythonLock()
