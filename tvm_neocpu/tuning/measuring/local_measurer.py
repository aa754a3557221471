"""Measuring on this machine: meta_schedule's runner, in worker processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.runner import EvaluatorConfig, LocalRunner, RunnerInput
from tvm.target import Target

from tvm_neocpu.core.machine.cores import physical_cores
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.tuning.measuring.build_candidate import Built, build_candidate
from tvm_neocpu.tuning.measuring.measurer import Measured, MeasureErrorNo
from tvm_neocpu.tuning.measuring.network_caches import time_in_network
from tvm_neocpu.tuning.measuring.workers import Scratch, WorkerPool, call_interruptibly
from tvm_neocpu.tuning.task import Task


@dataclass(frozen=True)
class Timing:
    """How a candidate is timed: ``repeat`` costs, each the mean of ``number`` runs or more.

    A cost takes at least ``min_repeat_ms``. Before each cost ``touched`` bytes of other data pass
    through the caches, as the data of other layers would; that needs ``number`` 1 and
    ``min_repeat_ms`` 0. The timeouts are seconds for one candidate.
    """

    number: int = 2
    repeat: int = 5
    min_repeat_ms: int = 10
    touched: int = 0
    build_timeout: float = 60.0
    run_timeout: float = 20.0


class LocalMeasurer:
    """Builds a batch in parallel, then times one candidate at a time, with no build running.

    Both happen in worker processes under a time limit, so that a candidate that hangs or crashes
    costs only itself. The timing worker's thread pool has ``threads`` threads; ``environment``
    holds further variables for it, such as ``TVM_BIND_THREADS``. ``builders`` is the number of
    building workers (default: one for each physical core). Inputs are random and aligned for
    vectors. Close the measurer, or use it in a ``with``, to end the workers.
    """

    def __init__(
        self,
        target: Target,
        cpu: str,
        threads: int,
        timing: Timing | None = None,
        builders: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.cpu = cpu
        self.threads = threads
        self.timing = timing or Timing()
        self._target = target
        self._environment = {**(environment or {}), "TVM_NUM_THREADS": str(threads)}
        self._builder_count = builders or physical_cores()
        self._scratch = Scratch()
        self._names = count()
        self._builders: WorkerPool | None = None
        self._runner: Any = None

    def __enter__(self) -> LocalMeasurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and remove everything that was built."""
        self._end_workers()
        self._scratch.close()

    def measure(self, task: Task, configs: Sequence[Config]) -> Generator[Measured, None, None]:
        """As :class:`Measurer` defines it; on Ctrl-C the workers end before it raises."""
        built: list[Built] = []
        try:
            built += self._build(task, configs)
            for config, candidate in zip(configs, built, strict=True):
                yield self._time(config, candidate)
        except KeyboardInterrupt:
            # The interrupt has killed some workers already; the next batch starts new ones.
            self._end_workers()
            raise
        finally:
            for candidate in built:
                _remove(candidate.path)

    def _build(self, task: Task, configs: Sequence[Config]) -> list[Built]:
        if self._builders is None:
            limit = self.timing.build_timeout
            self._builders = WorkerPool(self._builder_count, limit, self._scratch)
        calls = [(task.build, config, self._target, self._stem()) for config in configs]
        return [_outcome(future) for future in self._builders.map(build_candidate, calls)]

    def _time(self, config: Config, built: Built) -> Measured:
        if built.error_no:
            return Measured(config, (), built.error_no, built.error, built.seconds)
        start = time.monotonic()
        parameters = [ArgInfo.from_json(parameter) for parameter in built.parameters]
        job = RunnerInput(built.path, "cpu", parameters)
        result = call_interruptibly(self._scratch, self._run, job)
        seconds = built.seconds + time.monotonic() - start
        if result.run_secs is None:
            text = str(result.error_msg)
            return Measured(config, (), _run_error(text), text, seconds)
        costs = tuple(float(cost) for cost in result.run_secs)
        if not all(cost > 0 for cost in costs):
            text = f"the timer returned {costs}"
            return Measured(config, (), MeasureErrorNo.RUNTIME_DEVICE, text, seconds)
        return Measured(config, costs, all_cost=seconds)

    def _run(self, job: RunnerInput) -> Any:
        if self._runner is None:
            self._runner = self._make_runner()
        return self._runner.run([job])[0].result()

    def _make_runner(self) -> Any:
        timing = self.timing
        evaluator = EvaluatorConfig(timing.number, timing.repeat, timing.min_repeat_ms)
        in_network = partial(time_in_network, timing.touched, self.threads)
        return LocalRunner(
            timeout_sec=timing.run_timeout,
            evaluator_config=evaluator,
            f_run_evaluator=in_network if timing.touched else None,
            initializer=self._scratch.initializer(self._environment),
        )

    def _end_workers(self) -> None:
        self._scratch.kill_workers()
        if self._builders is not None:
            self._builders.close()
        if self._runner is not None:
            self._runner.pool.shutdown()
        self._builders = self._runner = None

    def _stem(self) -> str:
        return str(self._scratch.path / f"candidate{next(self._names)}")


def _outcome(future: Future[Any]) -> Built:
    error = future.exception()
    if error is None:
        built: Built = future.result()
        return built
    if isinstance(error, TimeoutError):
        return Built(error_no=MeasureErrorNo.BUILD_TIMEOUT, error="building took too long")
    if isinstance(error, ChildProcessError):
        return Built(error_no=MeasureErrorNo.COMPILE_HOST, error="building crashed its process")
    text = f"{type(error).__name__}: {error}"
    return Built(error_no=MeasureErrorNo.INSTANTIATION_ERROR, error=text)


def _run_error(text: str) -> MeasureErrorNo:
    timed_out = text.startswith("LocalRunner: Timeout")
    return MeasureErrorNo.RUN_TIMEOUT if timed_out else MeasureErrorNo.RUNTIME_DEVICE


def _remove(path: str) -> None:
    if path:
        with contextlib.suppress(OSError):
            os.unlink(Path(path))
