"""Signals end a session, but not in the middle of a record."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tvm_neocpu.tuning.local_search import interrupt
from tvm_neocpu.tuning.local_search.interrupt import Interrupts

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_either_signal_is_a_keyboard_interrupt(number) -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts():
        os.kill(os.getpid(), number)
        signal.sigtimedwait([], 1)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_held_block_finishes_first(number) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        with interrupts.held():
            os.kill(os.getpid(), number)
            done.append("inside")
        done.append("after")
    assert done == ["inside"]


def test_an_impatient_second_signal_does_not_interrupt_what_the_first_one_ends(monkeypatch) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Interrupts():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            done.append("ended")
    assert done == ["ended"]
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            with interrupts.held():
                signal.raise_signal(signal.SIGINT)
            done.append("written")
    assert done == ["ended", "written"]
    monkeypatch.setattr(interrupt, "SAME_SECONDS", 0.0)
    with Interrupts():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupts():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_another_thread_may_use_it_without_effect() -> None:
    seen = []

    def use() -> None:
        with Interrupts() as interrupts, interrupts.held():
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [before]
