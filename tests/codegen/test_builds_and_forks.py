"""A process that forks while another of its threads builds: its child can build, too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tvm.ir.transform import PassContext
from tvm.target import Target

from tvm_neocpu.codegen import kernels
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX's")
# Longer than a fork takes; a child that cannot go on waits so long, too.
SECONDS = 0.5


@contextmanager
def thread_inside(work: Any, inside: threading.Event) -> Iterator[None]:
    """A thread that has begun its work."""
    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    yield
    thread.join()


def test_a_child_can_take_the_lock_of_a_pass_that_ran_in_another_thread() -> None:
    inside = threading.Event()

    def run_pass() -> None:
        with PYTHON_LOCK:
            inside.set()
            time.sleep(SECONDS)

    with thread_inside(run_pass, inside):
        child = os.fork()
        if child == 0:
            os._exit(0 if PYTHON_LOCK.acquire(timeout=SECONDS) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_fork_waits_for_the_kernel_that_another_thread_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside, ended = threading.Event(), threading.Event()

    def compile_slowly(*_: object) -> None:
        inside.set()
        time.sleep(SECONDS)
        ended.set()

    monkeypatch.setattr(kernels.tirx, "build", compile_slowly)
    context, target = PassContext(), Target({"kind": "llvm"})

    def compile_one() -> None:
        kernels.build_module({}, target, context)

    with thread_inside(compile_one, inside):
        child = os.fork()
        if child == 0:
            os._exit(0 if ended.is_set() else 1)
        assert os.waitpid(child, 0)[1] == 0
