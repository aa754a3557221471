"""Real measuring of small products in worker processes; needs TVM and some seconds."""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil
import pytest
import tvm

from tvm_neocpu.core.machine.cpu import MIB
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.tune_tasks import tune_tasks
from tvm_neocpu.tuning.measuring.local_measurer import LocalMeasurer, Timing
from tvm_neocpu.tuning.measuring.measurer import MeasureErrorNo
from tvm_neocpu.tuning.task import Task

SIZE = 64
TIMING = Timing(number=1, repeat=3, min_repeat_ms=1, build_timeout=5.0, run_timeout=2.0)
# Values of oc_bn that make the test's template misbehave.
BAD_SCHEDULE, CRASH, SLOW_BUILD, BAD_CODE, ENDLESS = 3, 5, 7, 9, 11


@pytest.fixture(scope="module")
def task() -> Task:
    def build(config):
        # Nested, so that workers get the function by value: they cannot import a test.
        import os
        import time

        import tvm
        from tvm import te

        if config.oc_bn == CRASH:
            os.abort()
        if config.oc_bn == SLOW_BUILD:
            time.sleep(100)
        rows = te.placeholder((SIZE, SIZE), name="rows")
        columns = te.placeholder((SIZE, SIZE), name="columns")
        k = te.reduce_axis((0, SIZE), name="k")
        again = te.reduce_axis((0, 2**34 if config.oc_bn == ENDLESS else 1), name="again")
        product = te.compute(
            (SIZE, SIZE),
            lambda i, j: te.sum(rows[i, k] * columns[k, j] * (again % 5 + 1), axis=[k, again]),
            name="product",
        )
        sch = tvm.s_tir.Schedule(te.create_prim_func([rows, columns, product]))
        i, j, k, again = sch.get_loops(sch.get_sblock("product"))
        if config.oc_bn == BAD_SCHEDULE:
            sch.parallel(k)
        if config.oc_bn == BAD_CODE:
            return sch.mod["main"].with_attr("target", "nonsense")
        outer, inner = sch.split(j, [None, config.oc_bn])
        sch.reorder(i, outer, again, k, inner)
        sch.vectorize(inner)
        sch.parallel(i)
        return sch.mod["main"]

    space = tuple(DenseConfig(n) for n in (16, 8, 32, BAD_SCHEDULE))
    return Task("product", DenseWorkload(SIZE, SIZE, SIZE), space, lambda c: 1.0 / c.oc_bn, build)


@pytest.fixture(scope="module")
def measurer():
    target = tvm.target.Target({"kind": "llvm", "num-cores": 2})
    with LocalMeasurer(target, "testcpu", 2, TIMING) as made:
        yield made


def test_only_the_candidates_that_are_bad_fail(measurer, task) -> None:
    asked = [16, BAD_SCHEDULE, CRASH, SLOW_BUILD, ENDLESS, BAD_CODE, 32]
    results = list(measurer.measure(task, [DenseConfig(n) for n in asked]))
    assert [result.config.oc_bn for result in results] == asked
    first, schedule, crash, slow, endless, code, last = results
    for good in (first, last):
        assert not good.error_no, good.error
        assert len(good.costs) == 3
        assert all(0 < cost < 0.1 for cost in good.costs)
        assert good.all_cost > 0
    assert schedule.error_no == MeasureErrorNo.INSTANTIATION_ERROR
    assert "ScheduleError" in schedule.error
    assert crash.error_no == MeasureErrorNo.COMPILE_HOST
    assert slow.error_no == MeasureErrorNo.BUILD_TIMEOUT
    assert endless.error_no == MeasureErrorNo.RUN_TIMEOUT
    assert code.error_no == MeasureErrorNo.COMPILE_HOST
    assert all(not result.costs for result in results if result.error_no)


def test_a_session_measures_for_real(measurer, task, tmp_path) -> None:
    log = TuningLog(tmp_path / "x.log")
    result = tune_tasks([task], measurer, log, limits=Limits())
    assert (result.measured, result.failed) == (4, 1)
    assert {(r.cpu, r.threads) for r in log.load().records} == {("testcpu", 2)}


def test_artifacts_are_removed_and_abandoned_builds_too(measurer, task) -> None:
    results = measurer.measure(task, [DenseConfig(8), DenseConfig(16)])
    next(results)
    results.close()
    assert not list(measurer._scratch.path.glob("candidate*"))


def test_ctrl_c_interrupts_a_running_candidate_and_the_next_batch_works(measurer, task) -> None:
    # A shell that starts tests in the background lets them ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT))
    # Both candidates are built in advance, so that the signal comes while the second one runs.
    results = measurer.measure(task, [DenseConfig(16), DenseConfig(ENDLESS)])
    next(results)
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert time.monotonic() - start < TIMING.run_timeout
    (good,) = measurer.measure(task, [DenseConfig(32)])
    assert good.costs


def test_closing_ends_the_workers_and_leaves_nothing(task) -> None:
    measurer = LocalMeasurer(tvm.target.Target("llvm"), "testcpu", 1, TIMING)
    scratch = measurer._scratch.path
    list(measurer.measure(task, [DenseConfig(16)]))
    ours = [int(note.stem) for note in scratch.glob("*.pid")]
    assert len(ours) == 2
    measurer.close()
    assert not scratch.exists()
    assert not [pid for pid in ours if psutil.pid_exists(pid)]


def test_candidates_are_timed_between_other_layers_data(task) -> None:
    """The worker compiles the sweep and runs it before every timed run."""
    timing = Timing(number=1, repeat=15, min_repeat_ms=0, touched=4 * MIB)
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    with LocalMeasurer(target, "testcpu", 1, timing) as measurer:
        (result,) = measurer.measure(task, [DenseConfig(16)])
    assert len(result.costs) == 15, result.error
