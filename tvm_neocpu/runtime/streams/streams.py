"""Threads that run networks: each has its cores, its machine and its buffers, all share weights.

Callers, any number of them, put calls into one queue; whichever stream is free takes the next. A
call that needs no more than one thread is computed in its caller's, while a stream is idle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from weakref import finalize

from tvm_neocpu.core.errors import SessionError
from tvm_neocpu.runtime.process.forking import late_imports, renew_after_fork
from tvm_neocpu.runtime.streams.callbacks import Callbacks
from tvm_neocpu.runtime.streams.cores import run_here_on
from tvm_neocpu.runtime.streams.places import Place, Work, run_in, run_on_idle, run_on_own

if TYPE_CHECKING:
    from concurrent.futures import Future  # 3 ms that calls of `run` alone do not need

State = TypeVar("State")
Result = TypeVar("Result")
# Makes of a work what does it in any thread.
Here = Callable[["Work[Any, Any]"], "Work[Any, Any]"]
Queue = SimpleQueue["_Call[Any] | None"]

_PATIENCE_SECONDS = 5.0


class _Call(Generic[State]):
    """What a stream shall do; ``finish`` gets the result, or the error.

    Calls with a ``together`` begin when as many streams have them, each with its own state.
    """

    __slots__ = ("finish", "together", "work")

    def __init__(
        self,
        work: Callable[[State], Any],
        finish: Callable[[Any, BaseException | None], None],
        together: threading.Barrier | None = None,
    ) -> None:
        self.work = work
        self.finish = finish
        self.together = together


class Streams(Generic[State]):
    """Some threads, one for each group of CPUs, that do work with a state of their own.

    ``make_state`` is called once for each group, with its CPUs. With ``here``, `call` does
    ``here(work)`` in the calling thread while a stream is idle and nobody waits. A forked child
    gets threads and states of its own, at its first call; `fork` waits for work that has begun.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[int]],
        make_state: Callable[[list[int]], State],
        here: Here | None = None,
    ) -> None:
        self.groups = [list(group) for group in groups]
        self._make_state = make_state
        self._here = here
        self._places = self._new_places()
        self._starting = threading.Lock()
        self._queue: Queue | None = None
        self._callbacks = Callbacks()
        self._stop: finalize | None = None
        self._is_closed = False
        renew_after_fork(self)

    def call(self, work: Callable[[State], Result]) -> Result:
        """Have a stream do it, and wait. Raises what ``work`` raises, SessionError once closed.

        Ctrl-C ends the wait. The stream goes on until its work is done; later calls get others. In
        the calling thread the work is done before Ctrl-C is heard, unless it looks for it.
        """
        if self._here is not None:
            done_here = self._done_here(self._here(work))
            if done_here:
                return done_here[0]
        ended = threading.Lock()
        ended.acquire()
        found: list[Any] = []

        def finish(result: Any, error: BaseException | None) -> None:
            found.append((result, error))
            ended.release()

        queue = self._put([_Call(work, finish)])
        try:
            ended.acquire()
        except BaseException:
            self._leave(queue)
            raise
        result, error = found[0]
        if error is not None:
            raise error
        done: Result = result
        return done

    def submit(self, work: Callable[[State], Result]) -> Future[Result]:
        """Have a stream do it, some time. A future that was cancelled before is not done.

        Its callbacks run in a thread that is no stream's: they may call, submit and wait.
        """
        with late_imports:
            from tvm_neocpu.runtime.streams.called_future import CalledFuture

        future: Future[Result] = CalledFuture(self._callbacks)
        self._put([_promised(work, future)])
        return future

    def each(self, work: Callable[[State], Result]) -> list[Result]:
        """Have every stream do it once with its own state, at the same time.

        Raises what ``work`` raises in the first stream that raised, SessionError once closed.
        """
        with late_imports:
            from concurrent.futures import Future

        together = threading.Barrier(len(self.groups))
        futures: list[Future[Result]] = [Future() for _ in self.groups]
        self._put([_promised(work, future, together) for future in futures])
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the threads, after what they have begun; what waits in the queue is done, too, and
        its callbacks are called. Nothing here holds a state any longer.
        """
        with self._starting:
            self._is_closed = True
            self._make_state, self._places = _no_state, []
        if self._stop is not None:
            self._stop()  # without the lock, which a callback's call may want

    def after_fork_in_child(self) -> None:
        """The threads do not exist here, and a lock may be held by one of them."""
        self._starting = threading.Lock()
        self._places = self._new_places()
        if self._stop is not None:
            self._stop.detach()
        self._queue = self._stop = None
        self._callbacks = Callbacks()

    def _done_here(self, work: Work[State, Result]) -> list[Result]:
        """The result in a list; an empty list where a stream's thread has to do it."""
        if self._is_closed:
            raise SessionError("the session is closed")
        places, queue = self._places, self._queue  # another caller's Ctrl-C may take either away
        if queue is None or queue.empty():  # else others were first
            found = run_on_idle(places, work)
            if found:
                return found
        me = threading.get_ident()
        if any(place.user == me for place in places):  # a signal's handler: its call waits for us
            return [self._new_places()[0].run(work)]
        return []

    def _new_places(self) -> list[Place[State]]:
        return [Place(group, self._make_state) for group in self.groups]

    def _put(self, calls: Sequence[_Call[State]]) -> Queue:
        """The queue that has them now, one behind the other: streams that wait for each other must
        not wait for a second group. The lock is held, for what comes behind a queue's end waits
        for ever.
        """
        with self._starting:
            is_stopped = self._stop is not None and not self._stop.alive  # Python ends
            if self._is_closed or is_stopped:
                raise SessionError("the session is closed")
            queue = self._queue or self._started()
            for call in calls:
                queue.put(call)
        return queue

    def _started(self) -> Queue:
        queue: Queue = SimpleQueue()
        threads = [
            threading.Thread(
                target=_serve,
                args=(queue, self._places, number, group),
                name=f"neocpu-stream-{number}",
                daemon=True,
            )
            for number, group in enumerate(self.groups)
        ]
        try:
            for thread in threads:
                thread.start()
        except BaseException:  # Ctrl-C: nobody will ever use this queue
            for _ in threads:
                queue.put(None)
            raise
        self._stop = finalize(self, _stop, queue, threads, self._callbacks)
        self._queue = queue
        return queue

    def _leave(self, queue: Queue) -> None:
        """Have nothing wait for these threads: they end after what they have, unobserved."""
        with self._starting:
            if queue is not self._queue or self._stop is None:
                return
            self._stop.detach()
            self._queue = self._stop = None
            self._places = self._new_places()
            self._callbacks.end(wait=False)
            self._callbacks = Callbacks()
        for _ in self.groups:
            queue.put(None)


def _promised(
    work: Callable[[State], Result],
    future: Future[Result],
    together: threading.Barrier | None = None,
) -> _Call[State]:
    """A call whose result is the future's."""
    is_begun = False

    def begin(state: State) -> Any:
        nonlocal is_begun
        is_begun = True
        return work(state) if future.set_running_or_notify_cancel() else None

    def finish(result: Any, error: BaseException | None) -> None:
        if not is_begun:  # the thread or its state could not be made
            future.set_running_or_notify_cancel()
        if future.done():  # cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    return _Call(begin, finish, together)


def _serve(queue: Queue, places: list[Place[Any]], number: int, cpus: list[int]) -> None:
    """A stream's thread. An error while it starts is the answer to every call."""
    failure: BaseException | None = None
    try:
        run_here_on(cpus)
    except BaseException as error:
        failure = error
    while (call := queue.get()) is not None:
        _answer(call, places, number, failure)
        del call  # what it holds may be large, and the next may be long in coming


def _answer(
    call: _Call[Any], places: list[Place[Any]], number: int, failure: BaseException | None
) -> None:
    result, error = None, failure
    if call.together is not None:
        call.together.wait()  # holding no place: a caller's call, or `fork`, may wait for that
    if failure is None:
        try:
            if call.together is None:
                result = run_on_own(places, number, call.work)
            else:
                result = run_in(places[number], call.work)
        except BaseException as raised:
            error = raised
    call.finish(result, error)


def _stop(queue: Queue, threads: Sequence[threading.Thread], callbacks: Callbacks) -> None:
    for _ in threads:
        queue.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(_PATIENCE_SECONDS)
    callbacks.end()


def _no_state(cpus: Sequence[int]) -> NoReturn:
    raise SessionError("the session is closed")
