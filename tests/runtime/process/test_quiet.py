"""Silence on stderr: for one caller, for several threads in every order, and after a fork."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.runtime.process.quiet import silent_stderr
from tvm_neocpu.targets import parse_target

# Starts and ends of three callers' silences, each in every order: +n enters, -n leaves.
ORDERS = [
    order
    for order in itertools.permutations((1, 2, 3, -1, -2, -3))
    if all(order.index(n) < order.index(-n) for n in (1, 2, 3))
]


THREADS, RUNS = 8, 200
NOISE = "[00:00:00] src/runtime/vm/executable.cc:276: Warning: Scope Saving:global\n"


def write(text: str) -> None:
    os.write(2, text.encode())


def test_noise_is_dropped_and_the_rest_comes_out_at_the_end(
    capfd: pytest.CaptureFixture[str],
) -> None:
    write("before\n")
    with silent_stderr():
        write(f"inside\n{NOISE}")
        with silent_stderr():
            write(f"{NOISE}deeper\n")
        assert capfd.readouterr().err == "before\n"
    write("after")
    assert capfd.readouterr().err.splitlines() == ["inside", "deeper", "after"]


def test_an_exception_ends_the_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), silent_stderr():
        raise ValueError
    write(NOISE)
    assert capfd.readouterr().err == NOISE


@pytest.mark.parametrize("order", ORDERS)
def test_callers_come_and_go_in_every_order(
    order: tuple[int, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    callers = {number: ExitStack() for number in (1, 2, 3)}
    inside: set[int] = set()
    expected = ""
    for step in order:
        if step > 0:
            callers[step].enter_context(silent_stderr())
            inside.add(step)
        else:
            callers[-step].close()
            inside.remove(-step)
        write(NOISE)
        expected += "" if inside else NOISE
        write(f"{step}\n")
        expected += f"{step}\n"
    assert capfd.readouterr().err == expected


def test_many_threads_lose_nothing_and_leave_no_descriptor_behind(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def come_and_go(number: int) -> None:
        for turn in range(RUNS):
            with silent_stderr():
                write(NOISE)
                write(f"{number} {turn}\n")

    def descriptors() -> list[str]:
        return sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []

    before = descriptors()
    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert descriptors() == before
    lines = capfd.readouterr().err.splitlines()
    assert sorted(lines) == sorted(f"{n} {turn}" for n in range(THREADS) for turn in range(RUNS))


SCRIPT = """
import os, sys
from tvm_neocpu.runtime.process.quiet import silent_stderr
{body}
"""


def run(body: str) -> str:
    script = SCRIPT.format(body=body)
    done = subprocess.run(
        # From 3.12 on Python warns of a fork beside threads.
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stderr


def test_a_child_forked_during_another_threads_silence_is_heard() -> None:
    body = (
        "import threading\n"
        "silent, ended = threading.Event(), threading.Event()\n"
        "def other():\n"
        "    with silent_stderr():\n"
        "        silent.set(); ended.wait()\n"
        "threading.Thread(target=other).start(); silent.wait()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.write(2, b'child;')\n"
        "    with silent_stderr(): os.write(2, b'inside;')\n"
        "    os.write(2, b'again;'); os._exit(0)\n"
        "os.waitpid(pid, 0); os.write(2, b'parent;'); ended.set()\n"
    )
    assert run(body) == "child;inside;again;parent;"


@pytest.mark.parametrize("closing", ["os.close(2)", "sys.stderr = None"])
def test_a_process_without_stderr(closing: str) -> None:
    assert run(f"{closing}\nwith silent_stderr(): pass\nwith silent_stderr(): pass") == ""


def test_llvms_complaint_is_silenced(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TargetError, match="does not know the feature"):
        parse_target("llvm -mattr=+no-such-thing")
    assert capfd.readouterr().err == ""
