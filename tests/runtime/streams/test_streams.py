"""Streams: Ctrl-C ends a wait, and what was waited for stands in nobody's way."""

from __future__ import annotations

import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from queue import SimpleQueue
from typing import Any

import pytest

from tvm_neocpu.core.errors import SessionError
from tvm_neocpu.runtime.streams.cores import allowed_cpus
from tvm_neocpu.runtime.streams.places import as_it_is
from tvm_neocpu.runtime.streams.streams import Streams

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


def test_each_stream_works_once_beside_a_caller() -> None:
    """A caller's call has one stream's state; another stream must not take that of a third."""
    streams = Streams([sorted(allowed_cpus())[:1]] * 4, lambda _: object(), as_it_is)
    held, done = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        held.set()
        assert done.wait(SECONDS)

    for _ in range(10):
        held.clear()
        done.clear()
        caller = threading.Thread(target=streams.call, args=(hold,), daemon=True)
        caller.start()
        assert held.wait(SECONDS)
        threading.Timer(0.02, done.set).start()
        assert len(set(_in_time(lambda: streams.each(lambda state: state)))) == 4
        caller.join(SECONDS)
    streams.close()


def test_two_that_have_each_stream_work() -> None:
    streams = Streams([sorted(allowed_cpus())[:1]] * 3, lambda _: object())
    found: list[int] = []

    def ask() -> None:
        found.extend(len(set(streams.each(lambda state: state))) for _ in range(50))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert found == [3] * 200
    streams.close()


def test_an_error_in_each() -> None:
    streams = Streams([sorted(allowed_cpus())[:1]] * 2, lambda _: object())
    with pytest.raises(ZeroDivisionError):
        streams.each(lambda _: 1 / 0)
    assert len(streams.each(id)) == 2
    streams.close()
    with pytest.raises(SessionError, match="closed"):
        streams.each(id)


def _in_time(work: Callable[[], list[object]]) -> list[object]:
    """What it returns, within a time limit: a deadlock must not stop the suite."""
    found: list[list[object]] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert found, "it hangs"
    return found[0]


@pytest.mark.parametrize("count", [1, 2])
def test_a_futures_callback_may_call(count: int) -> None:
    """In the stream's own thread a call would wait for itself."""
    streams = Streams([sorted(allowed_cpus())] * count, lambda _: threading.get_ident())
    answers: SimpleQueue[object] = SimpleQueue()
    begins = threading.Event()
    future = streams.submit(lambda _: begins.wait(SECONDS))
    future.add_done_callback(lambda _: answers.put(streams.call(lambda _: "answer")))
    begins.set()
    assert answers.get(timeout=SECONDS) == "answer"
    assert streams.call(lambda _: "and later") == "and later"
    streams.close()


def test_callbacks_may_call_each_others_session() -> None:
    """Each of two sessions' only thread would wait for the other's, if callbacks ran there."""
    cpus = [sorted(allowed_cpus())]
    pair = Streams(cpus, lambda _: "first"), Streams(cpus, lambda _: "second")
    both, begins = threading.Barrier(2), threading.Event()
    answers: SimpleQueue[object] = SimpleQueue()

    def ask(other: Streams[str]) -> None:
        both.wait(SECONDS)
        answers.put(other.call(lambda state: state))

    for one, other in (pair, pair[::-1]):
        future = one.submit(lambda _: begins.wait(SECONDS))
        future.add_done_callback(lambda _, other=other: ask(other))
    begins.set()
    assert {answers.get(timeout=SECONDS) for _ in pair} == {"first", "second"}
    for each in pair:
        each.close()


def test_a_futures_callback_may_submit_and_wait() -> None:
    streams = Streams([sorted(allowed_cpus())], lambda _: None)
    answers: SimpleQueue[object] = SimpleQueue()
    begins = threading.Event()
    future = streams.submit(lambda _: begins.wait(SECONDS))
    future.add_done_callback(
        lambda _: answers.put(streams.submit(lambda _: "answer").result(SECONDS))
    )
    begins.set()
    assert answers.get(timeout=SECONDS) == "answer"
    streams.close()


def test_close_waits_for_callbacks_which_end_no_thread() -> None:
    streams = Streams([sorted(allowed_cpus())], lambda _: None)
    begins, called = threading.Event(), []
    future = streams.submit(lambda _: begins.wait(SECONDS))
    future.add_done_callback(lambda _: sys.exit("no thread"))
    future.add_done_callback(lambda _: time.sleep(0.05))
    future.add_done_callback(called.append)
    begins.set()
    streams.close()
    assert called == [future]


def test_callbacks_are_called_where_no_thread_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has as many as it may; Python 3.12 makes none while it ends."""
    streams = Streams([sorted(allowed_cpus())], lambda _: None)
    begins, called = threading.Event(), []
    future = streams.submit(lambda _: begins.wait(SECONDS))
    future.add_done_callback(called.append)

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        begins.set()
        streams.call(lambda _: None)
    streams.close()
    assert called == [future]


def test_a_call_as_python_ends_is_refused() -> None:
    """A callback's call would wait for ever for threads that have ended, and Python for that."""
    streams = Streams([sorted(allowed_cpus())], lambda _: None)
    streams.call(lambda _: None)
    at_exit = streams._stop
    assert at_exit is not None and at_exit.atexit
    at_exit()

    def call() -> list[object]:
        with pytest.raises(SessionError, match="the session is closed"):
            streams.call(lambda _: None)
        return ["refused"]

    assert _in_time(call) == ["refused"]


@pytest.mark.parametrize("fails", ["thread", "state"])
def test_a_cancelled_call_ends_no_thread_that_could_not_start(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = threading.Event()

    def fail(_: object) -> None:
        assert begins.wait(SECONDS)
        raise OSError("no such CPU")

    if fails == "thread":
        monkeypatch.setattr("tvm_neocpu.runtime.streams.streams.run_here_on", fail)
    streams = Streams([sorted(allowed_cpus())], fail)
    first, cancelled = (streams.submit(lambda _: "answer") for _ in range(2))
    assert cancelled.cancel()
    begins.set()
    with pytest.raises(OSError, match="no such CPU"):
        first.result(SECONDS)
    assert wait([cancelled], SECONDS).done
    with pytest.raises(OSError, match="no such CPU"):
        streams.submit(lambda _: "answer").result(SECONDS)
    streams.close()


def test_closed_streams_hold_no_state() -> None:
    class State:
        pass

    made: list[weakref.ref[State]] = []

    def make(_: object) -> State:
        state = State()
        made.append(weakref.ref(state))
        return state

    streams = Streams([sorted(allowed_cpus())], make)
    streams.call(lambda _: None)
    assert made[0]() is not None
    streams.close()
    assert made[0]() is None
