"""Tuning a network from the model to the logged plan, the machine replaced by the cost model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from onnx import helper

from tvm_neocpu.commands import tune_network as module
from tvm_neocpu.commands.tune_network import tune_network
from tvm_neocpu.core.config import Config
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.measuring.measure import Measured
from tvm_neocpu.tuning.search.budget import Limits
from tvm_neocpu.tuning.task import Task

MakeModel = Callable[..., Any]

FEW = Limits(trials=1)


class Modelled:
    """Takes what the cost model says, and may be interrupted at some candidate."""

    asked: list[tuple[str, Config]]
    stop_at: int | None

    def __init__(self, target: object, cpu: str, threads: int, timing: object) -> None:
        self.cpu, self.threads = cpu, threads

    def __enter__(self) -> Modelled:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, task: Task, configs: Sequence[Config]) -> Generator[Measured, None, None]:
        for config in configs:
            if len(self.asked) == self.stop_at:
                raise KeyboardInterrupt
            self.asked.append((task.name, config))
            # Transforms are dear: the search wants schemes that nobody measured.
            factor = 20 if isinstance(task.workload, TransformWorkload) else 1
            yield Measured(config, (factor * task.predicted(config),))


@pytest.fixture(autouse=True)
def modelled(monkeypatch: pytest.MonkeyPatch) -> type[Modelled]:
    monkeypatch.setattr(module, "MetaScheduleMeasurer", Modelled)
    Modelled.asked, Modelled.stop_at = [], None
    return Modelled


@pytest.fixture(scope="module")
def target() -> CompileTarget:
    found = parse_target("llvm -mcpu=skylake-avx512")
    return replace(found, cpu=found.cpu.with_cores(2))


@pytest.fixture(scope="module")
def mod(make_model: MakeModel) -> tvm.IRModule:
    """Three convolutions alike: by itself each would write other blocks than it reads."""
    nodes = [helper.make_node("Conv", ["data", "w"], ["a"], kernel_shape=[1, 1])]
    for src, dst in (("a", "b"), ("b", "out")):
        # Without it in between they would be folded into one.
        nodes.append(helper.make_node("Relu", [src], [f"{src}.relu"]))
        nodes.append(helper.make_node("Conv", [f"{src}.relu", "w"], [dst], kernel_shape=[1, 1]))
    shape = (1, 64, 7, 7)
    return from_onnx(make_model(nodes, shape, {"w": (64, 64, 1, 1)}, shape))[0]


def test_the_logged_plan_is_measured(mod: Any, target: Any, tmp_path: Path) -> None:
    summary = tune_network(mod, target, tmp_path / "x.log", limits=FEW)
    graph = ExtractConvGraph(target.cpu)(fold(mod, target.cpu))
    log = TuningLog(tmp_path / "x.log").load()
    known = {(record.workload, record.config) for record in log.records}
    plan = History(target.cpu.name, 2, (log,)).plan(graph)
    assert plan == summary.plan
    assert {(node.workload, plan.configs[node.id]) for node in graph.convs} <= known
    assert summary.search.unmeasured == 0
    assert not summary.interrupted
    assert summary.search.measured > 0
    assert f"{summary.search.measured} more measured for it" in str(summary)


def test_resuming_measures_nothing_again(mod: Any, target: Any, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    plan = tune_network(mod, target, log, limits=FEW).plan
    assert len(Modelled.asked) == len(set(Modelled.asked))
    Modelled.asked = []
    again = tune_network(mod, target, log, limits=FEW)
    assert Modelled.asked == []
    assert again.plan == plan
    tune_network(mod, target, log, limits=FEW, resume=False)
    assert {name for name, _ in Modelled.asked} >= {task.name for task in again.local.tasks}
    assert {config for _, config in Modelled.asked} >= set(plan.configs.values())


def test_zero_rounds_measure_no_more_than_the_tuning_did(
    mod: Any, target: Any, tmp_path: Path
) -> None:
    summary = tune_network(mod, target, tmp_path / "x.log", limits=FEW, rounds=0)
    assert summary.plan is not None
    assert summary.search.unmeasured > 0
    assert len(Modelled.asked) == summary.local.measured + summary.transforms.measured


def test_an_interrupt_anywhere_is_said_and_resumed(mod: Any, target: Any, tmp_path: Path) -> None:
    whole = tune_network(mod, target, tmp_path / "whole.log", limits=FEW)
    before_search = whole.local.measured + whole.transforms.measured
    for stop in range(len(Modelled.asked)):
        log = tmp_path / f"{stop}.log"
        Modelled.asked, Modelled.stop_at = [], stop
        cut = tune_network(mod, target, log, limits=FEW)
        assert cut.interrupted
        assert cut.plan is None
        assert (cut.search is None) == (stop < before_search)
        assert str(cut).endswith("run again to go on")
        assert len(TuningLog(log).load().records) == stop
        Modelled.stop_at = None
        assert tune_network(mod, target, log, limits=FEW).plan is not None
        assert len(Modelled.asked) == len(set(Modelled.asked))
