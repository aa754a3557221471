"""Futures whose callbacks run in a thread of the session's, not in that which is done with them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from tvm_neocpu.runtime.streams.callbacks import Callbacks

Result = TypeVar("Result")


class CalledFuture(Future[Result]):
    """A future whose callbacks run where ``callbacks`` has them."""

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._callbacks = callbacks

    def add_done_callback(self, fn: Callable[[Future[Result]], object]) -> None:
        """Call ``fn(future)`` once it is done, in the callbacks' thread; here if it is done now."""
        if self.done():
            super().add_done_callback(fn)
            return
        callbacks = self._callbacks

        def done(future: Future[Result]) -> None:  # without `self`: results live no longer
            # Of a future that is done it calls at once, and reports what is raised.
            callbacks.call(partial(Future.add_done_callback, future, fn))

        super().add_done_callback(done)
