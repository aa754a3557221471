"""The calling thread leaves a worker's core, and keeps the mask that it had."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from tvm_neocpu.runtime import forking, step_aside
from tvm_neocpu.runtime.threads import one_of_each_core

needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(one_of_each_core()) < 2,
    reason="needs two cores and a system that binds threads",
)


@pytest.fixture(autouse=True)
def each_cpu_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_aside, "_core", lambda cpu: f"core {cpu % 8}")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """The masks that a look sets, of a thread on CPU 1 beside a worker bound to it."""
    found: list[set[int]] = []
    monkeypatch.setattr(step_aside, "_cpu_here", lambda: 1)
    monkeypatch.setattr(step_aside, "_taken_cpus", lambda: iter([1]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda _, cpus: found.append(set(cpus)), raising=False
    )
    return found


@pytest.mark.parametrize(
    ("here", "allowed", "bound", "better"),
    [
        (1, {0, 1}, [1], {0}),
        (0, {0, 1}, [1], set()),  # it is right where it is
        (1, {1}, [1], set()),  # the user's mask has no other
        (3, {0, 1, 2, 3, 5, 6}, [1, 2, 3], {0}),  # CPUs 5 and 6 are no cores of their own
        (9, {1, 8, 9}, [1], {8}),  # hyper-threads: CPU 9 is on core 1
        (1, {0, 1}, [1, 1], {0}),  # two callers' workers
        (1, {0, 1}, [0, 1], set()),  # another library has bound its threads to all cores
        (1, {0, 1}, [0, 1, 1], {0}),
        (1, {0, 1}, [], set()),
    ],
)
def test_better_cpus(here: int, allowed: set[int], bound: list[int], better: set[int]) -> None:
    taken = [*bound, 5, 6] if 5 in allowed else bound
    cores = Counter(f"core {cpu % 8}" for cpu in taken)
    assert step_aside.better_cpus(here, allowed, cores) == better


def test_the_mask_is_restored(calls: list[set[int]]) -> None:
    step_aside._look()
    assert calls == [{0, 2}, {0, 1, 2}]


def test_a_refusal_changes_nothing(calls: list[set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, cpus: set[int]) -> None:
        calls.append(cpus)
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert not step_aside._look()
    assert calls == [{0, 2}, {0, 1, 2}]


def test_a_system_without_proc(calls: list[set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> int:
        raise FileNotFoundError

    monkeypatch.setattr(step_aside, "_cpu_here", missing)
    step_aside._look()
    assert calls == []


def test_a_system_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    step_aside._look()


@pytest.mark.parametrize(
    ("moves", "longest", "most"),
    [(False, step_aside.USUAL_WAIT, 420), (True, step_aside.LONGEST_WAIT, 20)],
)
def test_looks_become_rare(
    moves: bool, longest: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ever rarer where the thread is put back each time; ten a second else."""
    clock = [100.0]
    looks: list[float] = []

    def look() -> bool:
        looks.append(clock[0] - 100)
        return moves

    monkeypatch.setattr(step_aside, "monotonic", lambda: clock[0])
    monkeypatch.setattr(step_aside, "_this_thread", step_aside._ThisThread())
    monkeypatch.setattr(step_aside, "_look", look)
    for _ in range(40_000):
        step_aside.step_aside()
        clock[0] += 0.001
    assert looks[0] == pytest.approx(
        step_aside.FIRST_WAIT, abs=0.0011
    )  # not at the first call, which makes the pool
    assert looks[-1] - looks[-2] <= 1.1 * longest
    assert len(looks) < most


@needs_affinity
def test_bound_threads_are_seen() -> None:
    """A thread that may use one CPU is; one that sleeps and is free, and the caller, are not."""
    script = """
        import os, threading
        from tvm_neocpu.runtime import step_aside
        cpu = min(os.sched_getaffinity(0))
        ready, ended = threading.Barrier(3), threading.Event()
        def wait(mask):
            os.sched_setaffinity(0, mask)
            ready.wait()
            ended.wait()
        for mask in ({cpu}, os.sched_getaffinity(0)):
            threading.Thread(target=wait, args=(mask,), daemon=True).start()
        ready.wait()
        while len(found := list(step_aside._taken_cpus())) > 1:
            pass  # until the free one sleeps
        assert found == [cpu], found
    """
    _run(script)


@needs_affinity
@pytest.mark.parametrize("binds", ["0", "1"])
def test_a_caller_on_a_workers_core_leaves_it(files: tuple[str, str], binds: str) -> None:
    script = """
        import os, sys
        import numpy as np
        import tvm
        import tvm_neocpu
        from tvm_neocpu.runtime import step_aside
        mask = os.sched_getaffinity(0)
        here, *others = sorted(mask)
        sets, set_mask = [], os.sched_setaffinity
        os.sched_setaffinity = lambda of, cpus: (sets.append(set(cpus)), set_mask(of, cpus))
        step_aside._core = str
        step_aside._cpu_here = lambda: here
        step_aside._taken_cpus = lambda: iter([here])
        module = tvm_neocpu.load(sys.argv[1])["default"](tvm.cpu())
        module.set_input(0, np.load(sys.argv[2]))
        module.run()
        assert not sets, "its pool is not there yet"
        step_aside._this_thread.next_look = 0.0
        mask = os.sched_getaffinity(0)  # TVM may have set it
        module.run()
        assert sets == [mask - {here}, mask], (sets, mask)
        assert os.sched_getaffinity(0) == mask
        set_mask(0, {here})  # the user's: no other core is allowed
        step_aside._this_thread.next_look = 0.0
        module.run()
        assert len(sets) == 2 and os.sched_getaffinity(0) == {here}
    """
    _run(script, *files, TVM_BIND_THREADS=binds, TVM_NUM_THREADS=str(len(one_of_each_core())))


def _run(script: str, *arguments: str, **environment: str) -> None:
    """In a process of its own, without other tests' threads."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_call_of_a_module_steps_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    stepped: list[int] = []
    monkeypatch.setattr(forking, "step_aside", lambda: stepped.append(1))
    assert forking.call(forking.ForkLock(), lambda value: value, 7) == 7
    assert stepped == [1]
