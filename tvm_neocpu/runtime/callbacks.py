"""The thread in which futures' callbacks run, so that they do not run in a stream's.

A callback keeps its thread from any other work. Where it waits for some of its own session, or of
another whose callbacks wait for this one, a stream's thread would wait for itself.
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
        """Have it called there; here and now where the thread has ended."""
        with self._lock:
            is_ended = self._is_ended
            if not is_ended:
                self._calls.put(function)
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=_serve, args=(self._calls,), name="neocpu-callbacks", daemon=True
                    )
                    self._thread.start()
        if is_ended:
            _make(function)

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
