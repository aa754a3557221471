"""The local search (NeoCPU, section 3.3.1): a tuning session over tasks; records go to the log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.tuning.database.best_records import BestRecords
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits, TaskState, affordable, most_urgent
from tvm_neocpu.tuning.local_search.interrupt import Interrupts
from tvm_neocpu.tuning.local_search.progress import NoProgress, Progress, TaskResult, TuningResult
from tvm_neocpu.tuning.measuring.measurer import Measured, Measurer
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tuners import TUNERS, Tuner, TunerFactory


def grid(task: Task) -> Tuner:
    """The default tuner factory: configs in the cost model's order."""
    return TUNERS["grid"]([task], 0)(task)


def tune_tasks(
    tasks: Sequence[Task],
    measurer: Measurer,
    log: TuningLog,
    *,
    tuner: TunerFactory = grid,
    limits: Limits | None = None,
    resume: bool = True,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TuningResult:
    """Measure the tasks' configs within the limits; append each result to the log at once.

    The session first measures the cost model's best config of every task, the heaviest task first.
    Then the tuners propose batches, in proportion to the tasks' share of the network's time. With
    ``resume``, configs that the log has for this CPU and thread count are not measured again.
    Ctrl-C and SIGTERM end the session cleanly: every finished measurement is in the log. The caller
    closes the measurer. Raises LogError, before anything is measured, if the log cannot be written.
    """
    log.check_writable()
    session = _Session(measurer, log, limits or Limits(), progress or NoProgress(), clock)
    return session.run(tasks, tuner, resume)


class _Session:
    def __init__(
        self,
        measurer: Measurer,
        log: TuningLog,
        limits: Limits,
        progress: Progress,
        clock: Callable[[], float],
    ) -> None:
        self._measurer = measurer
        self._log = log
        self._limits = limits
        self._progress = progress
        self._clock = clock
        self._start = clock()
        self._interrupts = Interrupts()
        self._states: list[TaskState] = []
        # Seconds spent on measuring, and the number of candidates measured in them.
        self._spent = 0.0
        self._bought = 0

    def run(self, tasks: Sequence[Task], tuner: TunerFactory, resume: bool) -> TuningResult:
        interrupted = False
        try:
            with self._interrupts:
                self._states = [_begin(task, tuner, self._limits) for task in tasks if task.space]
                if resume:
                    self._resume()
                self._progress.begin([state.result for state in self._states])
                self._measure_favourites()
                self._measure_batches()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            # Even if the log fails, the display must release the terminal.
            result = self._result(interrupted)
            self._progress.end(result)
        return result

    def _resume(self) -> None:
        records = self._log.load().records
        best = BestRecords(records, self._measurer.cpu, self._measurer.threads)
        for state in self._states:
            space = set(state.task.space)
            for config, record in best.measured(state.task.workload).items():
                if config in space:
                    state.resume(record)

    def _measure_favourites(self) -> None:
        for state in sorted(self._states, key=lambda state: -state.weight):
            if self._exhausted():
                return
            if state.left and state.favourite not in state.known:
                self._measure(state, [state.favourite])

    def _measure_batches(self) -> None:
        while not self._exhausted() and (state := most_urgent(self._states)) is not None:
            configs = state.tuner.propose(self._batch_size(state))
            if configs:
                before = state.best_seconds
                self._measure(state, configs)
                state.end_batch(before, self._limits.patience)
            if not configs or not state.left:
                state.done = f"{state.result.known} tried"
            if state.done:
                self._progress.task_done(state.result, state.done)

    def _measure(self, state: TaskState, configs: list[Config]) -> None:
        start = self._clock()
        with closing(self._measurer.measure(state.task, configs)) as results:
            for measured in results:
                self._keep(state, measured)
                self._bought += 1
                if self._seconds_left() <= 0:
                    break
        self._spent += self._clock() - start

    def _keep(self, state: TaskState, measured: Measured) -> None:
        record = Record(
            workload=state.task.workload,
            config=measured.config,
            costs=measured.costs,
            cpu=self._measurer.cpu,
            threads=self._measurer.threads,
            error_no=int(measured.error_no),
            all_cost=measured.all_cost,
            timestamp=time.time(),
        )
        with self._interrupts.held():
            self._log.append(record)
            state.hear(record, measured.error)
        self._progress.measured(state.result, record, self._forecast())

    def _batch_size(self, state: TaskState) -> int:
        wanted = int(min(self._limits.batch, state.left, self._trials_left()))
        each = self._spent / self._bought if self._bought else 0.0
        return affordable(wanted, self._seconds_left(), each) if wanted else 0

    def _exhausted(self) -> bool:
        return self._seconds_left() <= 0 or self._trials_left() <= 0

    def _trials_left(self) -> float:
        if self._limits.total_trials is None:
            return math.inf
        return self._limits.total_trials - sum(state.result.known for state in self._states)

    def _seconds_left(self) -> float:
        if self._limits.seconds is None:
            return math.inf
        return self._limits.seconds - (self._clock() - self._start)

    def _forecast(self) -> float | None:
        """Seconds left: min of budget and pace so far; ``None`` while neither is known."""
        elapsed = self._clock() - self._start
        measured = sum(state.result.measured for state in self._states)
        unfinished = sum(state.left for state in self._states if not state.done)
        pace = elapsed / measured * min(unfinished, self._trials_left()) if measured else math.inf
        left = min(pace, self._seconds_left())
        return left if left < math.inf else None

    def _result(self, interrupted: bool) -> TuningResult:
        results = tuple(state.result for state in self._states)
        seconds = self._clock() - self._start
        return TuningResult(results, seconds, interrupted, self._seconds_left() <= 0)


def _begin(task: Task, tuner: TunerFactory, limits: Limits) -> TaskState:
    # Cached: the prediction is asked for here, by every tuner, and by some again for each batch.
    task = replace(task, predicted=cache(task.predicted))
    favourite = min(task.space, key=task.predicted)
    result = TaskResult(task.name, task.workload, limits.planned(len(set(task.space))))
    return TaskState(task, tuner(task), favourite, result)
