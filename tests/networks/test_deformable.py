"""A deformable block (DCN v2): compiled, exported, tuned, logged, built from the log, explained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from deformable import by_onnx_reference, by_onnx_runtime
from machine_here import prove_at_once
from onnx import TensorProto, helper
from onnx_net import Net, assert_close

import tvm_neocpu
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.commands import explain, tune
from tvm_neocpu.pipeline import fold, lower
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.log import load_log

Oracle = Callable[[onnx.ModelProto, Mapping[str, np.ndarray]], np.ndarray]

CPU = parse_target().cpu
SHAPE = (1, 8, 5, 6)


def block(
    channels: int = 16, filters: int = 24, offset_groups: int = 2, opset: int = 19
) -> onnx.ModelProto:
    """Conv, DeformConv with offsets and a mask that convolutions of its data make, ReLU, Conv."""
    net = Net(SHAPE, biases=True)
    taps = 9 * offset_groups
    data = net("Relu", net.conv("data", SHAPE[1], channels, 3))
    offset = net.conv(data, channels, 2 * taps, 3)
    mask = net("Sigmoid", net.conv(data, channels, taps, 3))
    tensors = [net.weight(filters, channels, 3, 3), offset, net.weight(filters), mask]
    moved = net("DeformConv", data, *tensors, pads=[1] * 4, offset_group=offset_groups)
    model = net.model(net.conv(net("Relu", net.batch_norm(moved, filters)), filters, 8))
    model.opset_import[0].version = opset
    return model


def outputs(library: Any, image: np.ndarray) -> np.ndarray:
    module = library["default"](tvm.cpu())
    module.set_input("data", image)
    module.run()
    return module.get_output(0).numpy()


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(1).standard_normal(SHAPE).astype("float32")


def imported(model: onnx.ModelProto) -> tvm.IRModule:
    return tvm_neocpu.relay.frontend.from_onnx(model)[0]


@pytest.mark.compiler
@pytest.mark.parametrize(("opset", "oracle"), [(19, by_onnx_reference), (22, by_onnx_runtime)])
def test_built_exported_and_loaded(
    opset: int, oracle: Oracle, image: np.ndarray, tmp_path: Path
) -> None:
    model = block(channels=8, filters=8, opset=opset)
    library = tvm_neocpu.relay.build(imported(model), target="llvm")
    library.export_library(tmp_path / "block.so")
    found = outputs(tvm_neocpu.load(tmp_path / "block.so"), image)
    assert_close(found, oracle(model, {"data": image}))


@pytest.mark.parametrize(("channels", "offset_groups"), [(16, 1), (12, 3), (13, 13)])
def test_channels_of_every_kind(channels: int, offset_groups: int, image: np.ndarray) -> None:
    model = block(channels, 20, offset_groups)
    library = tvm_neocpu.relay.build(imported(model), target="llvm")
    assert_close(outputs(library, image), by_onnx_runtime(model, {"data": image}))


def test_the_plan_knows_its_blocks_and_what_it_reads_plain() -> None:
    graph = ExtractConvGraph(CPU)(fold(imported(block()), CPU))
    (node,) = (node for node in graph.nodes if isinstance(node.workload, DeformConvWorkload))
    assert node.workload == DeformConvWorkload(
        *SHAPE[:1], 16, *SHAPE[2:], 24, (3, 3), padding=(1,) * 4, offset_groups=2, masked=True
    )
    labels = {each.label for each in graph.nodes if each.id.startswith(node.id)}
    assert labels == {str(node.workload), "offset", "mask"}
    config = choose_plan(graph, CPU, History(CPU.name, CPU.cores)).configs[node.id]
    assert isinstance(config, DeformConfig) and config.ic_bn > 1 and config.oc_bn > 1


def test_its_epilogue_is_fused() -> None:
    """Bias and batch norm are one scale and one shift, and one function with it and the ReLU."""
    lowered = lower(imported(block()), CPU)
    names = [name.name_hint for name, _ in lowered.functions_items()]
    (name,) = (each for each in names if "deform_conv2d" in each)
    assert re.fullmatch(r"fused_deform_conv2d_multiply\d*_add\d*_nn_relu\d*", name)


def test_tuned_logged_and_explained(
    image: np.ndarray,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prove_at_once(monkeypatch)
    model, path, log = block(), tmp_path / "block.onnx", tmp_path / "block.log"
    onnx.save(model, path)
    assert tune.main([str(path), "--trials", "2", "--log", str(log)]) == 0
    contents = load_log(log)
    records = [r for r in contents.records if isinstance(r.workload, DeformConvWorkload)]
    assert len(records) >= 2 and all(record.ok for record in records)
    (plan,) = contents.plans.values()
    (config,) = (each for each in plan.configs.values() if isinstance(each, DeformConfig))

    mod, cpu = imported(model), parse_target().cpu  # of as many threads as were tuned for
    with tvm_neocpu.apply_history_best(log):
        graph = ExtractConvGraph(cpu)(fold(mod, cpu))
        assert config in choose_plan(graph, cpu).configs.values()
        tuned = tvm_neocpu.relay.build(mod, target="llvm")
    assert_close(outputs(tuned, image), by_onnx_runtime(model, {"data": image}))

    capsys.readouterr()
    report = tmp_path / "block.json"
    assert explain.main([str(path), "--log", str(log), "--json", str(report)]) == 0
    assert "deformable 16x5x6->24 3x3 p1 og2 masked" in capsys.readouterr().out
    assert '"deformable"' in json.dumps(json.loads(report.read_text()))


def test_a_weight_that_is_computed_takes_no_template(image: np.ndarray) -> None:
    """The weight is an input here, so that no template can pack it."""
    nodes = [
        helper.make_node("Relu", ["data"], ["x"]),
        helper.make_node("DeformConv", ["x", "weight", "offset"], ["moved"], pads=[1] * 4),
        helper.make_node("Relu", ["moved"], ["out"]),
    ]
    rng = np.random.default_rng(2)
    feeds = {
        "data": image,
        "weight": rng.normal(size=(6, 8, 3, 3)).astype("float32"),
        "offset": rng.normal(size=(1, 18, *SHAPE[2:])).astype("float32"),
    }
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.FLOAT, array.shape) for name, array in feeds.items()]
    graph = helper.make_graph(nodes, "plain", inputs, [value("out", TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 19)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    module = tvm_neocpu.relay.build(imported(model), target="llvm")["default"](tvm.cpu())
    for name, array in feeds.items():
        module.set_input(name, array)
    module.run()
    assert_close(module.get_output(0).numpy(), by_onnx_runtime(model, feeds))
