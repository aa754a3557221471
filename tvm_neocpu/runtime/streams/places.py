"""Where calls are computed: with a stream's memory, in its thread or in the caller's own.

Code without parallel loops needs no thread of its own. To hand a call to a stream and its answer
back takes two switches between threads, 20 us and more: as long as a LeNet computes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

from tvm_neocpu.runtime.ffi.tvm_library import load_runtime
from tvm_neocpu.runtime.process.forking import fork_lock

State = TypeVar("State")
Result = TypeVar("Result")
Work = Callable[[State], Result]


class Place(Generic[State]):
    """A stream's state, made when it is needed. One call at a time has it, from any thread.

    ``user`` is the thread of that call, for which `fork` waits. ``is_wanted`` tells callers that
    the stream's thread waits for it, so that they do not overtake.
    """

    __slots__ = ("_cpus", "_make", "_state", "is_wanted", "lock", "user")

    def __init__(self, cpus: list[int], make: Callable[[list[int]], State]) -> None:
        self._cpus = cpus
        self._make = make
        self._state: State | None = None
        self.lock = fork_lock()
        self.user: int | None = None
        self.is_wanted = False

    def run(self, work: Work[State, Result]) -> Result:
        """Do it with the state; the caller holds the lock."""
        self.user = threading.get_ident()
        try:
            if self._state is None:
                self._state = self._make(self._cpus)
            return work(self._state)
        finally:
            self.user = None


def run_on_idle(places: Sequence[Place[State]], work: Work[State, Result]) -> list[Result]:
    """The result in a list, from a place that nobody has; an empty list where each is in use."""
    for place in places:
        if place.user is None and not place.is_wanted:
            with place.lock:  # written in C: no Ctrl-C leaves it locked
                if place.user is None:  # else a signal's handler, in the midst of its own call
                    return [place.run(work)]
    return []


def run_on_own(places: Sequence[Place[State]], number: int, work: Work[State, Result]) -> Result:
    """The result, for the stream of that number: from its place, another while a caller has that,
    or its own once the caller is done.
    """
    found = run_on_idle([places[number], *places], work)
    if found:
        return found[0]
    return run_in(places[number], work)


def run_in(place: Place[State], work: Work[State, Result]) -> Result:
    """The result, for a stream's thread, from that place, once its caller is done."""
    place.is_wanted = True
    with place.lock:
        place.is_wanted = False
        return place.run(work)


def as_it_is(work: Work[State, Result]) -> Work[State, Result]:
    """Work that has no parallel loops, as any thread can do it."""
    return work


def with_serial_loops(work: Work[State, Result]) -> Work[State, Result]:
    """Work whose parallel loops run in the thread that does it, none in a pool of TVM.

    TVM keeps the number of threads for each thread; it is set back afterwards. Only where
    `can_run_serially`.
    """
    functions = _concurrency()
    assert functions is not None, "can_run_serially() says no"
    read, write = functions

    def serially(state: State) -> Result:
        before = read()
        try:
            write(1)
            return work(state)
        finally:
            write(before)

    return serially


def can_run_serially() -> bool:
    """Whether TVM's runtime has what `with_serial_loops` needs."""
    return _concurrency() is not None


@cache
def _concurrency() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """TVM's ``threading::MaxConcurrency`` and ``SetMaxConcurrency``.

    `runtime.config_threadpool` sets that number too, but makes a pool of as many threads, which the
    caller's own modules could not enlarge afterwards.
    """
    load_runtime()
    scope = "_ZN3tvm7runtime9threading"
    try:
        library: Any = ctypes.PyDLL(None)
        read, write = (
            library[f"{scope}14MaxConcurrencyEv"],
            library[f"{scope}17SetMaxConcurrencyEi"],
        )
    except (AttributeError, OSError, TypeError):
        return None
    read.argtypes, read.restype = (), ctypes.c_int
    write.argtypes, write.restype = (ctypes.c_int,), None
    return read, write
