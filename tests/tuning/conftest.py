"""Small tasks, records and a measurer that needs no TVM."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import product
from pathlib import Path

import pytest

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.measuring.measurer import Measured, MeasureErrorNo
from tvm_neocpu.tuning.task import Task

CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))


class ScriptedMeasurer:
    """Times configs by a function, and records what it was asked for."""

    def __init__(self, seconds: Callable[[Task, Config], float]) -> None:
        self.cpu = "testcpu"
        self.threads = 2
        self.asked: list[tuple[str, Config]] = []
        self.batches: list[tuple[str, int]] = []
        self._seconds = seconds

    def measure(self, task: Task, configs: Sequence[Config]) -> Generator[Measured, None, None]:
        self.batches.append((task.name, len(configs)))
        for config in configs:
            self.asked.append((task.name, config))
            seconds = self._seconds(task, config)
            if seconds == float("inf"):
                failure = MeasureErrorNo.COMPILE_HOST
                yield Measured(config, error_no=failure, error="Traceback\nValueError: no")
                continue
            yield Measured(config, (seconds, seconds * 1.1), all_cost=0.5)


@pytest.fixture
def assets() -> Path:
    return Path(__file__).parent / "assets"


@pytest.fixture
def conv() -> ConvWorkload:
    return CONV


@pytest.fixture
def space() -> tuple[ConvConfig, ...]:
    """Twenty-four configs in six layout pairs."""
    return tuple(
        ConvConfig(ic_bn, oc_bn, reg_n, unroll)
        for ic_bn, oc_bn, reg_n, unroll in product((8, 16), (8, 16, 32), (7, 14), (True, False))
    )


@pytest.fixture
def make_record(conv: ConvWorkload) -> Callable[..., Record]:
    """A record of the test's convolution; any field may be given."""

    def make(config: Config, seconds: float = 1e-3, **fields: object) -> Record:
        values = {"workload": conv, "costs": (seconds,), "cpu": "testcpu", "threads": 2, **fields}
        return Record(config=config, **values)

    return make


@pytest.fixture
def predicted() -> Callable[[Config], float]:
    """A cost model: wide blocks and tiles are fast."""
    return lambda config: 1.0 / (config.ic_bn + 2 * config.oc_bn + config.reg_n)


@pytest.fixture
def make_task(
    conv: ConvWorkload,
    space: tuple[ConvConfig, ...],
    predicted: Callable[[Config], float],
) -> Callable[..., Task]:
    """A task; different ``channels`` give different workloads, any field may be given."""

    def make(name: str = "conv", channels: int = 64, **fields: object) -> Task:
        workload = ConvWorkload(1, channels, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))
        values = {"space": space, "predicted": predicted, "build": str, **fields}
        return Task(name, workload, **values)

    return make


@pytest.fixture
def scripted() -> type[ScriptedMeasurer]:
    return ScriptedMeasurer
