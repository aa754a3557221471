"""Worker processes: their thread pool, their time limit, their end. TVM is needed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psutil
import pytest
from tvm.support.popen_pool import PopenWorker

from tvm_neocpu.tuning.measuring.workers import Scratch, WorkerPool, worker_initializer


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    made = Scratch()
    yield made
    made.close()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_workers_thread_pool_has_the_size_asked_for(threads, tmp_path) -> None:
    def threads_after_a_parallel_loop() -> int:
        # Nested, so that the worker gets it by value: it cannot import a test.
        import os

        import numpy as np
        import tvm
        from tvm import te

        data = te.placeholder((64,), name="data")
        more = te.compute((64,), lambda i: data[i] + 1.0, name="more")
        sch = tvm.s_tir.Schedule(te.create_prim_func([data, more]))
        sch.parallel(sch.get_loops(sch.get_sblock("more"))[0])
        before = len(os.listdir("/proc/self/task"))
        run = tvm.compile(sch.mod, target=tvm.target.Target("llvm"))
        run(*(tvm.runtime.tensor(np.ones(64, "float32")) for _ in range(2)))
        return len(os.listdir("/proc/self/task")) - before + 1

    environment = {"TVM_NUM_THREADS": str(threads)}
    worker = PopenWorker(worker_initializer(tmp_path, environment))
    worker.send(threads_after_a_parallel_loop)
    # The calling thread belongs to the pool.
    assert worker.recv() == threads
    worker.kill()


def test_a_slow_call_and_a_crash_cost_only_themselves(scratch) -> None:
    def act(what: str) -> str:
        import os
        import time

        if what == "crash":
            os.abort()
        if what == "sleep":
            time.sleep(100)
        return what

    pool = WorkerPool(2, 5.0, scratch)
    start = time.monotonic()
    first, crash, slow, last = pool.map(act, [("a",), ("crash",), ("sleep",), ("b",)])
    assert time.monotonic() - start < 50
    assert (first.result(), last.result()) == ("a", "b")
    assert isinstance(crash.exception(), ChildProcessError)
    assert isinstance(slow.exception(), TimeoutError)
    pool.close()


def test_only_our_workers_are_killed(scratch) -> None:
    stranger = psutil.Popen(["sleep", "60"])
    pool = WorkerPool(1, 30.0, scratch)
    (future,) = pool.map(lambda: __import__("os").getpid(), [()])
    worker = psutil.Process(future.result())
    scratch.kill_workers()
    ended, _ = psutil.wait_procs([worker], timeout=10)
    assert ended == [worker]
    assert stranger.is_running()
    stranger.kill()
    stranger.wait()
    pool.close()
