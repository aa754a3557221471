"""Streams: Ctrl-C ends a wait, and what was waited for stands in nobody's way."""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from tvm_neocpu.core.errors import SessionError
from tvm_neocpu.runtime.cores import allowed_cpus
from tvm_neocpu.runtime.places import as_it_is
from tvm_neocpu.runtime.streams import Streams

SECONDS = 20


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("count", [1, 2])
def test_calls_after_ctrl_c_do_not_wait_for_what_was_left(count: int) -> None:
    made: list[threading.Thread] = []
    streams = Streams(
        [sorted(allowed_cpus())] * count, lambda _: made.append(threading.current_thread())
    )
    ends = threading.Event()

    def endless(_: object) -> None:
        # CPython misses a signal between its last look for one and a lock's wait.
        assert not ends.wait(0.1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert ends.wait(SECONDS)

    try:
        for _ in range(count):
            with pytest.raises(KeyboardInterrupt):
                streams.call(endless)
        assert streams.submit(lambda _: "answer").result(SECONDS) == "answer"
        left = [thread for thread in made if thread.is_alive()]
        assert len(left) > count  # those that were left, and the new ones
    finally:
        ends.set()
    streams.close()
    for thread in made:
        thread.join(SECONDS)
        assert not thread.is_alive()
    with pytest.raises(SessionError, match="closed"):
        streams.call(lambda _: None)


def test_threads_end_that_ctrl_c_found_while_they_were_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if begun:
            raise KeyboardInterrupt
        begun.append(thread)
        start(thread)

    streams = Streams([sorted(allowed_cpus())] * 2, lambda cpus: None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            streams.call(lambda _: None)
    begun[0].join(SECONDS)
    assert not begun[0].is_alive()
    assert streams.call(lambda _: "answer") == "answer"
    streams.close()


def test_a_call_while_another_leaves_its_threads_behind() -> None:
    """Ctrl-C in another caller takes the queue away between two looks at it."""

    class Leaving(Streams[None]):
        @property
        def _queue(self) -> Any:
            return self.__dict__.pop("_queue", None)

        @_queue.setter
        def _queue(self, queue: Any) -> None:
            self.__dict__["_queue"] = queue

    streams = Leaving([sorted(allowed_cpus())[:1]], lambda _: None, as_it_is)
    streams._queue = SimpleQueue()
    assert streams.call(lambda _: "answer") == "answer"
