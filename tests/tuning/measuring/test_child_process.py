"""Objects in processes of their own: what they raise arrives, their death is survived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest
from fresh_process import run_script

import tvm_neocpu
from tvm_neocpu.tuning.measuring.child_process import (
    ChildDied,
    ChildError,
    ChildProcess,
    Children,
    _heard,
)
from tvm_neocpu.tuning.measuring.polite_end import end_between


class Served:
    """What the tests ask."""

    def __init__(self, refuse: bool = False) -> None:
        if refuse:
            raise OSError("no such file\nand a stack")

    def double(self, number: int) -> int:
        return 2 * number

    def fail(self) -> None:
        raise ValueError("bad input\nand a stack")

    def sleep(self) -> None:
        time.sleep(60)

    def die(self) -> None:
        os._exit(7)


class SlowToLoad:
    """A process that is starting for a minute."""

    def __init__(self) -> None:
        time.sleep(60)


class StoppedConnection:
    """What a process hears that was stopped for long while it waited: the clock is over, and the
    answer comes a few steps later."""

    def __init__(self, answers_after: int) -> None:
        self.left = answers_after
        self.asked: list[float] = []

    def poll(self, timeout: float) -> bool:
        self.asked.append(timeout)
        self.left -= 1
        return self.left < 0


def test_a_stopped_process_waits_for_as_long_as_it_runs() -> None:
    connection = StoppedConnection(answers_after=3)
    assert _heard(connection, 600.0)
    assert connection.asked == [1.0, 1.0, 1.0, 1.0]
    silent = StoppedConnection(answers_after=99)
    assert not _heard(silent, 2.5)
    assert silent.asked == [1.0, 1.0, 0.5, 0]


def test_answers_and_errors() -> None:
    with ChildProcess(Served) as child:
        assert child.ask("double", 21) == 42
        with pytest.raises(ChildError, match=r"^bad input$") as caught:
            child.ask("fail")
        assert caught.value.kind == "ValueError"
        assert child.ask("double", 4) == 8  # it goes on
    assert not child.alive


def test_what_loading_raises_is_said() -> None:
    with pytest.raises(ChildError, match=r"^no such file$"):
        ChildProcess(partial(Served, refuse=True))


def test_a_process_that_hangs_is_killed() -> None:
    with ChildProcess(Served) as child:
        with pytest.raises(ChildDied, match="no answer") as caught:
            child.ask("sleep", timeout=0.3)
        assert caught.value.hung
        assert not child.alive


def test_a_process_that_dies_says_with_which_code() -> None:
    with ChildProcess(Served) as child:
        with pytest.raises(ChildDied, match="code 7") as caught:
            child.ask("die", timeout=30)
        assert not caught.value.hung
        with pytest.raises(ChildDied):
            child.ask("double", 1)


FIRST = """
import os, signal, sys
from tvm_neocpu.tuning.measuring.child_process import ChildProcess

class Served:
    def mask(self):
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())

with ChildProcess(Served) as child:
    print(child.ask("mask"))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signal masks")
def test_ctrl_c_does_not_reach_the_first_process() -> None:
    """multiprocessing starts its tracker before it, which changes the mask of signals."""
    assert run_script(FIRST).stdout == "True\n"


def test_all_processes_end_at_once_whatever_they_do() -> None:
    children = Children()
    with ThreadPoolExecutor(2) as pool:
        ready = children.start(Served)
        asked = pool.submit(ready.ask, "sleep")
        starting = pool.submit(children.start, SlowToLoad)
        while len(children._processes) < 2:
            time.sleep(0.01)
        start = time.monotonic()
        children.end()
        for future in (asked, starting):
            with pytest.raises(ChildDied):
                future.result(timeout=10)
    assert time.monotonic() - start < 5
    assert not any(process.alive for process in children._processes)
    with pytest.raises(ChildDied, match="nobody asks"):
        children.start(Served)


def test_whoever_ends_a_process_does_not_close_it_beside_whoever_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both see its end at the same time; closing lets other threads run."""
    close = Connection._close

    def slow(connection: Connection) -> None:
        time.sleep(0.2)
        close(connection)

    monkeypatch.setattr(Connection, "_close", slow)
    children = Children()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(children.start(Served).ask, "sleep")
        time.sleep(0.2)
        children.end()
        with pytest.raises(ChildDied):
            asked.result(timeout=10)


class Caller:
    """In the midst of a call that takes half a second; then it computes for a minute."""

    def __init__(self, done: Path) -> None:
        self._calling, self._done = threading.RLock(), done
        end_between(self._calling)

    def call(self) -> None:
        with self._calling:
            time.sleep(0.5)
            self._done.touch()
        time.sleep(60)


def test_a_call_comes_to_its_end_before_its_process_does(tmp_path: Path) -> None:
    children, done = Children(), tmp_path / "done"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(children.start(partial(Caller, done)).ask, "call")
        time.sleep(0.2)
        start = time.monotonic()
        children.end()
        assert time.monotonic() - start < 5
        assert done.exists()
        with pytest.raises(ChildDied):
            asked.result(timeout=10)


ORPHAN = """
import os, signal, threading, time
from tvm_neocpu.tuning.measuring.child_process import ChildProcess

class Served:
    def pid(self):
        return os.getpid()

    def sleep(self):
        time.sleep(60)

child = ChildProcess(Served)
print(child.ask("pid"), flush=True)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
child.ask("sleep")
"""


def test_a_process_ends_when_the_one_that_asks_is_killed() -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(tvm_neocpu.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", ORPHAN], env=env, stdout=subprocess.PIPE)
    pid = int(done.stdout)
    end = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.05)
