"""The interface of measuring, and a measurer that replays a log."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import median
from typing import Protocol

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.tuning.task import Task


class MeasureErrorNo(IntEnum):
    """AutoTVM's error numbers, which its logs contain."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


@dataclass(frozen=True)
class Measured:
    """The result for one config.

    ``costs`` are seconds per run, empty on failure. ``all_cost`` is the seconds that building and
    timing took together.
    """

    config: Config
    costs: tuple[float, ...] = ()
    error_no: int = MeasureErrorNo.NO_ERROR
    error: str = ""
    all_cost: float = 0.0

    @property
    def seconds(self) -> float:
        """Median of the costs, infinite for a failure."""
        return median(self.costs) if self.costs else float("inf")


class Measurer(Protocol):
    """Times configs of a task on a CPU named ``cpu`` with a pool of ``threads`` threads."""

    @property
    def cpu(self) -> str: ...

    @property
    def threads(self) -> int: ...

    def measure(self, task: Task, configs: Sequence[Config]) -> Generator[Measured, None, None]:
        """Yield one result for each config, in order, each as soon as it is known.

        A config that fails to build or run is a result too: it raises nothing. The caller may close
        the generator early; then nothing that it started may keep running.
        """


class ReplayMeasurer:
    """Answers from records, for tests and for comparing tuners.

    A config without a record counts as a failure.
    """

    def __init__(self, records: Iterable[Record], cpu: str, threads: int) -> None:
        self.cpu = cpu
        self.threads = threads
        self._records: dict[tuple[Workload, Config], Record] = {
            (record.workload, record.config): record
            for record in records
            if (record.cpu, record.threads) == (cpu, threads)
        }

    def measure(self, task: Task, configs: Sequence[Config]) -> Generator[Measured, None, None]:
        for config in configs:
            record = self._records.get((task.workload, config))
            if record is None:
                error = "not among the replayed records"
                yield Measured(config, error_no=MeasureErrorNo.UNKNOWN_ERROR, error=error)
                continue
            yield Measured(config, record.costs, record.error_no, all_cost=record.all_cost)
