"""Tuning a network from its graph to the logged plan; the cost model replaces the machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from onnx import helper
from tvm.target import Target

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.errors import LogError
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import fold, search_plan
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.measuring.local_measurer import Timing
from tvm_neocpu.tuning.measuring.measurer import Measured
from tvm_neocpu.tuning.measuring.network_caches import touched_bytes
from tvm_neocpu.tuning.task import Task
from tvm_neocpu.tuning.tune_graph import TuneSummary, tune_graph

MakeModel = Callable[..., Any]
Tune = Callable[..., TuneSummary]

FEW = Limits(trials=1)


class Modelled:
    """Every config takes as long as the cost model says; ``stop_at`` interrupts at a candidate."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Config]] = []
        self.stop_at: int | None = None
        self.cpu, self.threads, self.touched = "", 0, 0

    def __call__(self, target: Target, cpu: str, threads: int, timing: Timing) -> Modelled:
        self.cpu, self.threads, self.touched = cpu, threads, timing.touched
        return self

    def __enter__(self) -> Modelled:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, task: Task, configs: Sequence[Config]) -> Generator[Measured, None, None]:
        for config in configs:
            if len(self.asked) == self.stop_at:
                raise KeyboardInterrupt
            self.asked.append((task.name, config))
            # Expensive transforms make the search want schemes that are not measured yet.
            factor = 20 if isinstance(task.workload, TransformWorkload) else 1
            yield Measured(config, (factor * task.predicted(config),))


@pytest.fixture
def machine() -> Modelled:
    return Modelled()


@pytest.fixture(scope="module")
def cpu() -> Cpu:
    return parse_target("llvm -mcpu=skylake-avx512").cpu.with_cores(2)


@pytest.fixture(scope="module")
def graph(make_model: MakeModel, cpu: Cpu) -> ConvGraph:
    """Three equal convolutions; the fastest scheme of each writes other blocks than it reads."""
    nodes = [helper.make_node("Conv", ["data", "w"], ["a"], kernel_shape=[1, 1])]
    for src, dst in (("a", "b"), ("b", "out")):
        # Without the ReLU two neighbours would be folded into one convolution.
        nodes.append(helper.make_node("Relu", [src], [f"{src}.relu"]))
        nodes.append(helper.make_node("Conv", [f"{src}.relu", "w"], [dst], kernel_shape=[1, 1]))
    shape = (1, 64, 7, 7)
    mod, _ = from_onnx(make_model(nodes, shape, {"w": (64, 64, 1, 1)}, shape))
    return ExtractConvGraph(cpu)(fold(mod, cpu))


@pytest.fixture
def tune(graph: ConvGraph, cpu: Cpu, machine: Modelled) -> Tune:
    """``tune(log, **options)`` tunes the graph with few trials on the modelled machine."""
    target = parse_target("llvm -mcpu=skylake-avx512").target
    search = partial(search_plan, graph, cpu)

    def run(log: Path, **options: Any) -> TuneSummary:
        options = {"limits": FEW, "measurer": machine, **options}
        return tune_graph(graph, target, cpu, search, TuningLog(log), **options)

    return run


def test_the_logged_plan_is_measured(
    tune: Tune, graph: ConvGraph, cpu: Cpu, tmp_path: Path
) -> None:
    summary = tune(tmp_path / "x.log")
    log = TuningLog(tmp_path / "x.log").load()
    known = {(record.workload, record.config) for record in log.records}
    plan = History(cpu.name, 2, (log,)).plan(graph)
    assert plan == summary.plan
    assert {(node.workload, plan.configs[node.id]) for node in graph.convs} <= known
    assert summary.search.unmeasured == 0
    assert not summary.interrupted
    assert summary.search.measured > 0
    assert f"{summary.search.measured} more measured for it" in str(summary)


def test_the_measurer_gets_the_cpu_its_threads_and_the_networks_footprint(
    tune: Tune, graph: ConvGraph, cpu: Cpu, machine: Modelled, tmp_path: Path
) -> None:
    tune(tmp_path / "x.log")
    assert (machine.cpu, machine.threads) == (cpu.name, 2)
    assert machine.touched == touched_bytes(graph) > 0


def test_resuming_measures_nothing_again(tune: Tune, machine: Modelled, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    plan = tune(log).plan
    assert len(machine.asked) == len(set(machine.asked))
    machine.asked = []
    again = tune(log)
    assert machine.asked == []
    assert again.plan == plan
    tune(log, resume=False)
    assert {name for name, _ in machine.asked} >= {task.name for task in again.local.tasks}
    assert {config for _, config in machine.asked} >= set(plan.configs.values())


def test_zero_rounds_measure_no_more_than_the_tuning_did(
    tune: Tune, machine: Modelled, tmp_path: Path
) -> None:
    summary = tune(tmp_path / "x.log", rounds=0)
    assert summary.plan is not None
    assert summary.search.unmeasured > 0
    assert len(machine.asked) == summary.local.measured + summary.transforms.measured


def test_an_interrupt_at_any_candidate_is_reported_and_resumed(
    tune: Tune, machine: Modelled, tmp_path: Path
) -> None:
    whole = tune(tmp_path / "whole.log")
    before_search = whole.local.measured + whole.transforms.measured
    for stop in range(len(machine.asked)):
        log = tmp_path / f"{stop}.log"
        machine.asked, machine.stop_at = [], stop
        cut = tune(log)
        assert cut.interrupted
        assert cut.plan is None
        assert (cut.search is None) == (stop < before_search)
        assert str(cut).endswith("run again to go on")
        assert len(TuningLog(log).load().records) == stop
        machine.stop_at = None
        assert tune(log).plan is not None
        assert len(machine.asked) == len(set(machine.asked))


def test_an_unwritable_log_raises_before_anything_is_measured(
    tune: Tune, machine: Modelled, tmp_path: Path
) -> None:
    with pytest.raises(LogError):
        tune(tmp_path)
    assert machine.asked == []
