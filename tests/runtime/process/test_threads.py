"""The thread pool's size and binding, decided before the pool starts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings

import pytest

from tvm_neocpu.core.machine.cores import allowed_cpus, physical_cores
from tvm_neocpu.runtime.process import threads


def test_one_thread_per_physical_core() -> None:
    environment: dict[str, str] = {}
    assert threads.size_thread_pool(environment) == physical_cores()
    assert environment["TVM_NUM_THREADS"] == str(physical_cores())


@pytest.mark.parametrize("name", ["TVM_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_users_count_wins(name: str) -> None:
    environment = {name: "7"}
    assert threads.size_thread_pool(environment) == 7
    assert environment["TVM_NUM_THREADS"] == "7"


def test_tvms_own_variable_comes_before_openmps() -> None:
    assert threads.thread_count({"TVM_NUM_THREADS": "2", "OMP_NUM_THREADS": "5"}) == 2


@pytest.mark.parametrize("text", ["abc", "0", "-2", ""])
def test_an_invalid_count_is_replaced_with_a_warning(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    environment = {"TVM_NUM_THREADS": text}
    assert threads.size_thread_pool(environment) == physical_cores()
    assert environment["TVM_NUM_THREADS"] == str(physical_cores())
    assert "not a positive number" in caplog.text


def test_idle_workers_look_for_work_less_often_unless_the_user_says_how_often() -> None:
    environment: dict[str, str] = {}
    threads.size_thread_pool(environment)
    assert environment["TVM_THREAD_POOL_SPIN_COUNT"] == "20000"
    environment["TVM_THREAD_POOL_SPIN_COUNT"] = "7"
    threads.size_thread_pool(environment)
    assert environment["TVM_THREAD_POOL_SPIN_COUNT"] == "7"


def test_the_users_binding_wins() -> None:
    environment = {"TVM_NUM_THREADS": "64", "TVM_BIND_THREADS": "1"}
    threads.size_thread_pool(environment)
    assert environment["TVM_BIND_THREADS"] == "1"


@pytest.mark.parametrize(
    ("count", "allowed", "right"),
    [
        (2, {0, 1}, False),  # all of them: Linux spreads free threads, and avoids neighbours
        (4, {0, 1, 2, 3}, False),
        (4, {0, 1, 2, 3, 4, 5, 6, 7}, True),  # CPUs 4-7 are the hyper-threads of 0-3
        (1, {1}, False),  # taskset to another CPU: binding would break out
        (2, {0, 1, 2, 3}, False),  # a quota below the mask: every container would sit on 0 and 1
        (5, {0, 1}, False),
    ],
)
def test_binding(
    count: int, allowed: set[int], right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "core_key", lambda cpu: str(cpu % 4))
    assert threads.binding_is_right(count, allowed) is right


def test_neighbouring_hyper_threads_are_not_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "core_key", lambda cpu: str(cpu // 2))
    assert not threads.binding_is_right(2, {0, 1, 2, 3})


POOL = """
    import os
    os.sched_setaffinity(0, {mask})
    import tvm_neocpu
    import numpy as np, tvm
    from tvm import te

    a = te.placeholder((4096, 256), name="a")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="b")
    sch = tvm.s_tir.Schedule(te.create_prim_func([a, b]))
    sch.parallel(sch.get_loops("b")[0])
    run = tvm.compile(sch.mod, tvm.target.Target("llvm"))
    x = tvm.runtime.tensor(np.zeros((4096, 256), "float32"))
    y = tvm.runtime.tensor(np.zeros((4096, 256), "float32"))
    run(x, y)
    assert (y.numpy() == 1).all()
    masks = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
    print(tvm.runtime.module.num_threads(), sorted(set().union(*masks)))
"""


def _run_pool(mask: set[int]) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_THREADS")}
    script = textwrap.dedent(POOL.replace("{mask}", repr(mask)))
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux's affinity calls")
def test_the_pool_has_every_physical_core_and_stays_in_its_mask() -> None:
    everything = allowed_cpus()
    assert _run_pool(everything) == f"{physical_cores()} {sorted(everything)}"
    last = max(everything)
    assert _run_pool({last}) == f"1 [{last}]"


def test_a_command_line_decides_before_the_pool_starts() -> None:
    environment: dict[str, str] = {}
    threads.use_threads(64, environment)
    assert environment == {"TVM_NUM_THREADS": "64", "TVM_BIND_THREADS": "0"}


@pytest.mark.parametrize(
    ("count", "pinned"),
    [(1, [[0]]), (2, [[0, 1]]), (3, [[0, 1, 4]]), (4, []), (9, [])],
)
def test_pinning_takes_one_cpu_of_each_core(
    count: int, pinned: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = {0: "a", 1: "b", 2: "a", 3: "b", 4: "c", 5: "d"}
    calls: list[list[int]] = []
    monkeypatch.setattr(threads, "allowed_cpus", lambda: set(cores))
    monkeypatch.setattr(threads, "core_key", cores.__getitem__)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda pid, cpus: calls.append(list(cpus)), raising=False
    )
    threads.pin_process(count)
    assert calls == pinned


def test_more_threads_than_cores_are_remarked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "physical_cores", lambda: 2)
    with pytest.warns(threads.TooManyThreadsWarning, match="64 threads on 2 cores"):
        threads.remark_too_many(64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads.remark_too_many(2)
