"""The thread in which futures' callbacks run, so that they do not run in a stream's.

A callback may wait for a call of its own session, or of another session whose callbacks wait for
this one. In a stream's thread it would wait for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

_Calls = SimpleQueue["Callable[[], object] | None"]

_PATIENCE_SECONDS = 5.0


class Callbacks:
    """One thread, made at the first call, that makes one call after the other."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may end it in the midst of `call`
        self._calls: _Calls = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_ended = False

    def call(self, function: Callable[[], object]) -> None:
        """Have it called there; here and now where the thread has ended, or none can be made."""
        with self._lock:
            is_taken = not self._is_ended
            if is_taken:
                self._calls.put(function)
                if self._thread is None and not self._start():
                    function, is_taken = self._calls.get_nowait(), False
        if not is_taken:
            _make(function)

    def _start(self) -> bool:
        thread = threading.Thread(
            target=_serve, args=(self._calls,), name="neocpu-callbacks", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the process has as many as it may, or Python 3.12 ends
            return False
        self._thread = thread
        return True

    def end(self, wait: bool = True) -> None:
        """End the thread after its calls; wait for that, except in one of them."""
        with self._lock:
            self._is_ended = True
            self._calls.put(None)
            thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE_SECONDS)


def _serve(calls: _Calls) -> None:
    while (function := calls.get()) is not None:
        _make(function)
        del function  # a future has its result, and the next may be long in coming


def _make(function: Callable[[], object]) -> None:
    try:
        function()
    except BaseException:  # `sys.exit()` in a callback ends no thread that others need
        from logging import getLogger  # 5 ms that few processes need

        getLogger("tvm_neocpu").exception("a future's callback raised")
