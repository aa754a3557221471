"""Workers that sleep are bound to cores of their own for the call that wakes them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tvm_neocpu.core.machine.cores import allowed_cpus
from tvm_neocpu.runtime.streams import cores, waking
from tvm_neocpu.runtime.streams.cores import run_here_on, workers_here
from tvm_neocpu.runtime.streams.waking import Waking

WORKERS, CPUS = (11, 12, 13), [4, 5, 6, 7]
Bound = dict[int, list[int]]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bound]:
    """Where each worker of a stream is bound, whose thread is on core 5."""
    found: Bound = {}
    monkeypatch.setattr(waking, "core_here", lambda: 5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda worker: CPUS)
    monkeypatch.setattr(os, "sched_setaffinity", lambda tid, cpus: found.update({tid: list(cpus)}))
    yield found


def test_the_first_call_after_a_pause_binds_and_lets_go(bound: Bound) -> None:
    (during, _), after = Waking().call(WORKERS, CPUS, lambda: dict(bound)), bound
    assert during == {11: [4], 12: [6], 13: [7]}
    assert after == dict.fromkeys(WORKERS, CPUS)


def test_workers_that_are_awake_are_left_alone(
    bound: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "AWAKE_SECONDS", 60.0)
    stream = Waking()
    stream._ended = waking.time.perf_counter()
    assert stream.call(WORKERS, CPUS, lambda: "result")[0] == "result"
    assert bound == {}


def test_a_call_that_fails_lets_go_too(bound: Bound) -> None:
    with pytest.raises(ZeroDivisionError):
        Waking().call(WORKERS, CPUS, lambda: 1 // 0)
    assert bound == dict.fromkeys(WORKERS, CPUS)


def test_a_worker_that_is_gone_is_no_error(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(worker: int, cpus: list[int]) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert Waking().call(WORKERS, CPUS, lambda: 1)[0] == 1


def test_a_thread_on_a_core_of_others_binds_nobody(bound: Bound) -> None:
    """It was moved there: four cores for three workers are one too many."""
    during, _ = Waking().call(WORKERS, [0, 1, 2, 3], lambda: dict(bound))
    assert during == {}


@pytest.fixture
def caller(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> waking._Caller:
    """A thread whose pool begins in its second run, with three workers on all of four CPUs."""
    threads = iter([{1}, {1}, {1}, {1, *WORKERS}])  # before and after each run
    monkeypatch.setattr(cores, "_threads", lambda: next(threads))
    monkeypatch.setattr(waking, "thread_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda worker: set(CPUS))
    found = waking._Caller()
    monkeypatch.setattr(waking, "_caller", found)
    return found


def test_a_classic_modules_workers_are_those_that_its_first_run_began(
    bound: Bound, caller: waking._Caller
) -> None:
    for _ in range(2):
        assert waking.call_as_caller(max, 1, 2) == 2
    assert caller.workers == WORKERS and bound == {}
    assert waking.call_as_caller(lambda: dict(bound)) == {11: [4], 12: [6], 13: [7]}
    assert bound == dict.fromkeys(WORKERS, CPUS)


def test_workers_that_tvm_has_bound_stay_where_they_are(
    bound: Bound, caller: waking._Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda worker: {worker - 7})
    for _ in range(3):
        waking.call_as_caller(max, 1, 2)
    assert caller.workers == () and bound == {}


def test_other_threads_that_began_meanwhile_are_not_bound(
    bound: Bound, caller: waking._Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "thread_count", lambda: 3)
    for _ in range(3):
        waking.call_as_caller(max, 1, 2)
    assert caller.workers == () and bound == {}


@pytest.mark.skipif(
    len(allowed_cpus()) < 2 or not os.path.isdir("/proc/self/task"),
    reason="needs two CPUs, and a system that numbers threads",
)
def test_a_threads_workers_are_known_and_move_within_its_cpus() -> None:
    cpus, found = sorted(allowed_cpus())[:2], []

    def work() -> None:
        run_here_on(cpus)
        (worker,) = workers_here()
        Waking().call((worker,), cpus, lambda: found.append(os.sched_getaffinity(worker)))
        found.append(os.sched_getaffinity(worker))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    during, after = found
    assert len(during) == 1 and during < after == set(cpus)
    assert workers_here() == ()
