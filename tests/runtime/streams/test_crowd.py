"""A thread leaves a core that it met another process on, over a simulated scheduler."""

from __future__ import annotations

import os
import threading

import pytest

from tvm_neocpu.runtime.streams import crowd
from tvm_neocpu.runtime.streams.cores import core_here, leave_core
from tvm_neocpu.runtime.streams.crowd import Crowd

CPUS = [0, 1]


class Scheduler:
    """Two cores, a neighbour on one of them, and one thread of ours."""

    def __init__(self) -> None:
        self.core = self.neighbour = 0
        self.moves = 0

    def leave(self, core: int, cpus: list[int]) -> None:
        self.core = next(cpu for cpu in cpus if cpu != core)
        self.moves += 1

    def run(self, crowd: Crowd) -> float:
        """The share of a call's time that the thread got."""
        crowd.avoid(CPUS)
        share = 0.5 if self.core == self.neighbour else 1.0
        crowd.note(1.0, share)
        return share


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    machine = Scheduler()
    monkeypatch.setattr(crowd, "core_here", lambda: machine.core)
    monkeypatch.setattr(crowd, "leave_core", machine.leave)
    return machine


def test_a_crowded_core_is_left_at_once_and_once(scheduler: Scheduler) -> None:
    ours = Crowd()
    assert [scheduler.run(ours) for _ in range(5)] == [0.5, 1.0, 1.0, 1.0, 1.0]
    scheduler.neighbour = 1
    assert [scheduler.run(ours) for _ in range(3)] == [0.5, 1.0, 1.0]
    assert scheduler.moves == 2


def test_a_thread_that_was_moved_meanwhile_stays(scheduler: Scheduler) -> None:
    """Woken on the free core, or moved there during the call."""
    ours = Crowd()
    scheduler.run(ours)
    scheduler.core = 1
    assert scheduler.run(ours) == 1.0
    scheduler.core = 0
    ours.avoid(CPUS)
    scheduler.core = 1
    ours.note(1.0, 0.5)
    assert scheduler.run(ours) == 1.0
    assert scheduler.moves == 0


def test_a_short_disturbance_is_no_reason(scheduler: Scheduler) -> None:
    scheduler.neighbour = -1
    ours = Crowd()
    scheduler.run(ours)
    ours.note(1.0, 0.8)
    scheduler.run(ours)
    assert scheduler.moves == 0


def test_where_the_system_does_not_tell_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "core_here", lambda: None)
    ours = Crowd()
    for _ in range(3):
        ours.avoid(CPUS)
        ours.note(1.0, 0.1)


@pytest.mark.skipif(core_here() is None, reason="needs a system that tells a thread's CPU")
def test_a_real_thread_leaves_its_core_and_may_return() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) == 1:
        pytest.skip("needs two CPUs")
    seen = []

    def move() -> None:
        for cpu in cpus:
            os.sched_setaffinity(0, [cpu])
            seen.append(core_here() == cpu)
            leave_core(cpu, cpus)
            seen.append(sorted(os.sched_getaffinity(0)) == cpus)

    thread = threading.Thread(target=move)
    thread.start()
    thread.join()
    assert all(seen) and len(seen) == 2 * len(cpus)
