"""The local search; a scripted measurer replaces the machine."""

from __future__ import annotations

import math
import os
import signal

import pytest

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.tune_tasks import tune_tasks
from tvm_neocpu.tuning.measuring.measurer import ReplayMeasurer
from tvm_neocpu.tuning.tuners import TUNERS

PATIENT = Limits(patience=None)


class RecordingProgress:
    """Records every call."""

    def __init__(self) -> None:
        self.heard: list[tuple] = []

    def phase(self, title) -> None:
        self.heard.append(("phase", title))

    def begin(self, tasks) -> None:
        self.heard.append(("begin", tuple(tasks)))

    def measured(self, task, record, seconds_left) -> None:
        self.heard.append(("measured", task, record, seconds_left))

    def task_done(self, task, why) -> None:
        self.heard.append(("task_done", task, why))

    def end(self, result) -> None:
        self.heard.append(("end", result))

    def of(self, kind: str) -> list[tuple]:
        return [each[1:] for each in self.heard if each[0] == kind]


class Clock:
    """Each call takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def log(tmp_path) -> TuningLog:
    return TuningLog(tmp_path / "x.log")


def seconds_of(task, config) -> float:
    """Narrow output blocks fail; small tiles are the fastest."""
    return math.inf if config.oc_bn == 8 else 1e-3 * config.reg_n / config.ic_bn


def test_everything_is_measured_and_logged(log, make_task, scripted, space) -> None:
    measurer = scripted(seconds_of)
    task = make_task()
    result = tune_tasks([task], measurer, log, limits=PATIENT)
    records = log.load().records
    assert {record.config for record in records} == set(space)
    assert len(records) == len(space)
    assert all((record.cpu, record.threads) == ("testcpu", 2) for record in records)
    assert (result.measured, result.failed, result.resumed) == (24, 8, 0)
    (outcome,) = result.tasks
    assert outcome.best.config.reg_n == 7
    assert outcome.best.config.ic_bn == 16
    assert outcome.error.endswith("ValueError: no")
    assert not result.interrupted
    assert not result.out_of_time


def test_the_favourites_come_first_the_heaviest_tasks_leading(
    log, make_task, scripted, predicted
) -> None:
    tasks = [
        make_task("light"),
        make_task("heavy", 128, occurrences=9),
        make_task("mid", 32, occurrences=3),
    ]
    measurer = scripted(seconds_of)
    tune_tasks(tasks, measurer, log, tuner=TUNERS["random"](tasks, 7), limits=PATIENT)
    assert [name for name, _ in measurer.asked[:3]] == ["heavy", "mid", "light"]
    for _, config in measurer.asked[:3]:
        assert config == min(tasks[0].space, key=predicted)
    assert len(measurer.asked) == 72


def test_trials_bound_each_task(log, make_task, scripted) -> None:
    measurer = scripted(seconds_of)
    tasks = [make_task("a"), make_task("b", 128)]
    result = tune_tasks(tasks, measurer, log, limits=Limits(trials=5, batch=2))
    assert [task.measured for task in result.tasks] == [5, 5]
    assert max(count for _, count in measurer.batches) == 2


def test_total_trials_bound_the_session(log, make_task, scripted) -> None:
    tasks = [make_task("a"), make_task("b", 128)]
    result = tune_tasks(tasks, scripted(seconds_of), log, limits=Limits(total_trials=7, batch=4))
    assert result.measured == 7


def test_a_task_that_stops_improving_ends_early(log, make_task, scripted) -> None:
    progress = RecordingProgress()
    limits = Limits(batch=2, patience=3)
    measurer = scripted(lambda task, config: 1e-3)
    result = tune_tasks([make_task()], measurer, log, limits=limits, progress=progress)
    assert result.measured == 1 + 3 * 2
    ((_, why),) = progress.of("task_done")
    assert why == "no better in 3 batches"


def test_resuming_measures_only_what_is_left(log, make_task, scripted, space) -> None:
    tune_tasks([make_task()], scripted(seconds_of), log, limits=Limits(trials=10))
    measurer = scripted(seconds_of)
    result = tune_tasks([make_task()], measurer, log, limits=PATIENT)
    assert (result.measured, result.resumed) == (14, 10)
    assert len(log.load().records) == 24
    again = scripted(seconds_of)
    result = tune_tasks([make_task()], again, log, limits=PATIENT)
    assert again.asked == []
    assert result.tasks[0].best.seconds == pytest.approx(1.05e-3 * 7 / 16)


def test_trials_count_what_is_known(log, make_task, scripted) -> None:
    limits = Limits(trials=10)
    tune_tasks([make_task()], scripted(seconds_of), log, limits=limits)
    assert tune_tasks([make_task()], scripted(seconds_of), log, limits=limits).measured == 0


def test_more_known_configs_than_trials_leave_nothing_to_do(log, make_task, scripted) -> None:
    tune_tasks([make_task()], scripted(seconds_of), log, limits=Limits(trials=10))
    progress = RecordingProgress()
    tune_tasks([make_task()], scripted(seconds_of), log, limits=Limits(trials=4), progress=progress)
    (((begun,),),) = progress.of("begin")
    assert (begun.planned, begun.known) == (10, 10)


def test_not_resuming_measures_again(log, make_task, scripted) -> None:
    for _ in range(2):
        tune_tasks([make_task()], scripted(seconds_of), log, limits=PATIENT, resume=False)
    assert len(log.load().records) == 48


def test_records_of_another_machine_or_space_do_not_resume(
    log, make_task, make_record, scripted, space
) -> None:
    log.append(make_record(space[0], threads=8))
    log.append(make_record(space[1], cpu="other"))
    log.append(make_record(ConvConfig(4, 4, 3)))
    result = tune_tasks([make_task()], scripted(seconds_of), log, limits=PATIENT)
    assert (result.measured, result.resumed) == (24, 0)


def test_an_interrupt_keeps_everything_measured(log, make_task, scripted, space) -> None:
    progress = RecordingProgress()

    def interrupted(task, config) -> float:
        if len(measurer.asked) == 8:
            raise KeyboardInterrupt
        return 1e-3

    measurer = scripted(interrupted)
    result = tune_tasks([make_task()], measurer, log, limits=PATIENT, progress=progress)
    assert result.interrupted
    assert result.measured == 7
    assert [r.config for r in log.load().records] == [c for _, c in measurer.asked[:7]]
    assert progress.of("end") == [(result,)]
    resumed = tune_tasks([make_task()], scripted(seconds_of), log, limits=PATIENT)
    assert (resumed.measured, resumed.resumed) == (17, 7)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_session_cleanly(log, make_task, scripted, number) -> None:
    before = signal.getsignal(number)

    def signalled(task, config) -> float:
        if len(measurer.asked) == 5:
            os.kill(os.getpid(), number)
        return 1e-3

    measurer = scripted(signalled)
    result = tune_tasks([make_task()], measurer, log, limits=PATIENT)
    assert result.interrupted
    assert len(log.load().records) == result.measured == 4
    assert signal.getsignal(number) is before


def test_the_time_budget_ends_the_session_after_the_favourites(log, make_task, scripted) -> None:
    tasks = [make_task(str(n), 2**n, occurrences=n) for n in range(3, 7)]
    measurer = scripted(seconds_of)
    limits = Limits(seconds=60.0, batch=4)
    result = tune_tasks(tasks, measurer, log, limits=limits, clock=Clock())
    assert result.out_of_time
    assert not result.interrupted
    assert result.measured < 96
    assert [name for name, _ in measurer.asked[:4]] == ["6", "5", "4", "3"]
    assert all(task.measured >= 1 for task in result.tasks)


def test_an_unwritable_log_raises_before_anything_is_measured(
    tmp_path, make_task, scripted
) -> None:
    measurer = scripted(seconds_of)
    with pytest.raises(LogError):
        tune_tasks([make_task()], measurer, TuningLog(tmp_path))
    assert measurer.asked == []


def test_a_log_that_fails_midway_ends_the_display(log, make_task, scripted, monkeypatch) -> None:
    progress = RecordingProgress()
    append = log.append

    def fail_later(record) -> None:
        if len(progress.of("measured")) == 3:
            raise LogError("the disk is full")
        append(record)

    monkeypatch.setattr(log, "append", fail_later)
    with pytest.raises(LogError, match="disk is full"):
        tune_tasks([make_task()], scripted(seconds_of), log, progress=progress)
    ((result,),) = progress.of("end")
    assert result.measured == 3


def test_progress_hears_each_record(log, make_task, scripted) -> None:
    progress = RecordingProgress()
    tasks = [make_task("a"), make_task("b", 128)]
    result = tune_tasks(tasks, scripted(seconds_of), log, limits=PATIENT, progress=progress)
    measured = progress.of("measured")
    assert tuple(record for _, record, _ in measured) == log.load().records
    assert all(left is not None and left >= 0 for _, _, left in measured)
    assert progress.heard[0][0] == "begin"
    assert progress.heard[-1] == ("end", result)
    assert sorted(task.name for task, _ in progress.of("task_done")) == ["a", "b"]


@pytest.mark.parametrize("name", sorted(TUNERS))
def test_every_tuner_replays_a_log(name, log, make_task, make_record, space) -> None:
    task = make_task()
    records = [make_record(config, 1e-3 * n) for n, config in enumerate(space, 1)]
    measurer = ReplayMeasurer(records, "testcpu", 2)
    result = tune_tasks([task], measurer, log, tuner=TUNERS[name]([task], 7), limits=PATIENT)
    assert result.tasks[0].best.config == space[0]
    assert result.failed == 0


def test_a_session_without_tasks_measures_nothing(log, make_task, scripted) -> None:
    assert tune_tasks([], scripted(seconds_of), log).measured == 0
    assert tune_tasks([make_task(space=())], scripted(seconds_of), log).tasks == ()
