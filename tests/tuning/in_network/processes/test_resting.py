"""A process rests when none of its other threads runs."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tvm_neocpu.tuning.in_network.processes import resting
from tvm_neocpu.tuning.in_network.processes.resting import others_run, rest


@pytest.fixture
def busy():
    """A thread that computes without Python's lock until the test ends."""
    end, array = threading.Event(), np.random.default_rng(7).random(1 << 20)

    def work() -> None:
        while not end.is_set():
            np.sort(array)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    end.set()
    thread.join()


def test_a_busy_thread_is_seen(busy: None) -> None:
    assert any(others_run() for _ in range(50))


def test_nobody_waits_longer_than_asked_for(busy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "others_run", lambda: True)
    assert 0.05 <= rest(0.05) < 5


def test_a_process_whose_threads_sleep_rests_at_once() -> None:
    end = threading.Event()
    sleeper = threading.Thread(target=end.wait)
    sleeper.start()
    try:
        assert rest(10.0) < 5  # threads that tests before this one left may need a moment
    finally:
        end.set()
        sleeper.join()


def test_a_system_that_does_not_tell_is_given_all_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr(resting, "_TASKS", tmp_path / "none")
    assert rest(0.05) >= 0.05
