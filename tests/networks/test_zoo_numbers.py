"""Whole networks, end to end: the zoo and the ONNX files that ship with the onnx package."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
import tvm
from every_time import slow_but
from onnx import numpy_helper
from onnx_net import assert_close, reference, run

import tvm_neocpu
from tvm_neocpu import pipeline, relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.table import space_of
from tvm_neocpu.tuning.database.log import TuningLog

# In every run of the tests; the others are slow.
ZOO_EVERY_TIME = {"lenet", "mobilenet_v2"}
LIGHT_EVERY_TIME = {"light_squeezenet"}
LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"
LIGHT_MODELS = sorted(LIGHT.glob("*.onnx"))


@lru_cache(maxsize=1)
def zoo_model(name: str) -> onnx.ModelProto:
    return model_zoo.build(name)


@pytest.mark.compiler
@pytest.mark.parametrize("name", slow_but(model_zoo.names(), ZOO_EVERY_TIME))
def test_a_zoo_network_before_and_after_tuning_and_export(name: str, tmp_path: Path) -> None:
    model = zoo_model(name)
    data = np.random.default_rng(1).standard_normal(model_zoo.input_shape(name), dtype=np.float32)
    expected = reference(model, data)
    mod, params = relay.frontend.from_onnx(model)

    untuned = relay.build(mod, target=None, params=params)
    assert_close(run(untuned, data), expected)
    with tvm_neocpu.apply_history_best(arbitrary_log(mod, tmp_path / "tuned.log")):
        tuned = relay.build(mod, target=None, params=params)
    assert_close(run(tuned, data), expected)
    tuned.export_library(tmp_path / "network.so")
    assert_close(run(tvm_neocpu.load(tmp_path / "network.so"), data), expected)


def arbitrary_log(mod: tvm.IRModule, path: Path) -> Path:
    """A log that prefers schedules nobody would: any fast-enough config, with invented times."""
    cpu = parse_target(None).cpu
    graph = ExtractConvGraph(cpu)(pipeline.fold(mod, cpu))
    log = TuningLog(path)
    for record in _invented_records(graph, cpu, random.Random(7)):
        log.append(record)
    return path


def _invented_records(graph: ConvGraph, cpu: Cpu, chance: random.Random) -> list[Record]:
    records = []
    for workload in graph.workloads:
        sane = [c.config for c in best_per_layout(workload, cpu)]
        wild = chance.choices(space_of(workload, cpu), k=2)
        for config in {*chance.choices(sane, k=3), *wild}:
            seconds = chance.uniform(1e-4, 2e-4)
            records.append(Record(workload, config, (seconds,), cpu.name, cpu.cores))
    return records


@pytest.mark.parametrize("name", slow_but([path.stem for path in LIGHT_MODELS], LIGHT_EVERY_TIME))
def test_an_onnx_file_of_the_onnx_package(name: str) -> None:
    path = LIGHT / f"{name}.onnx"
    model = onnx.load(path)
    mod, params = relay.frontend.from_onnx(model)
    lib = relay.build(mod, target="llvm", params=params)
    weights = {tensor.name for tensor in model.graph.initializer}
    (entry,) = (value for value in model.graph.input if value.name not in weights)
    shape = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
    # The expected outputs were made with this input (onnx/backend/test/runner).
    data = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    expected = onnx.TensorProto.FromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    assert_close(run(lib, data), numpy_helper.to_array(expected))


def test_all_nine_light_models_are_there() -> None:
    assert len(LIGHT_MODELS) == 9


def test_no_transform_is_left_in_resnet50_when_all_blocks_are_equal() -> None:
    cpu = parse_target("llvm -mcpu=skylake-avx512").cpu
    mod, _ = relay.frontend.from_onnx(model_zoo.build("resnet50"))
    folded = pipeline.fold(mod, cpu)
    graph = ExtractConvGraph(cpu)(folded)
    plan = choose_plan(graph, cpu)
    equal = {
        node.id: next(
            config
            for config in space_of(node.workload, cpu)
            if getattr(config, "ic_bn", 16) in (0, 16) and config.oc_bn == 16
        )
        for node in graph.convs
        if node.workload is not None
    }
    plan = type(plan)(graph.hash, equal)
    assert count_transforms(pipeline.apply_plan(folded, plan, cpu)) == 0


def test_the_modern_way_builds_the_same() -> None:
    model = model_zoo.build("lenet")
    data = np.random.default_rng(1).standard_normal((1, 1, 28, 28), dtype=np.float32)
    mod, _ = relay.frontend.from_onnx(model)
    executable = tvm.compile(mod, parse_target(None).target, relax_pipeline="neocpu")
    machine = tvm.relax.VirtualMachine(executable, tvm.cpu())
    assert_close(machine["main"](tvm.runtime.tensor(data)).numpy(), reference(model, data))
