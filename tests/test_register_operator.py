"""An operator that somebody brings from outside: one file, and every part of the package knows it.

ONNX's one-dimensional Conv arrives as ``relax.nn.conv1d``, which becomes a convolution over images
unless somebody has an operator for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from machine_here import prove_at_once
from onnx import helper, numpy_helper
from tvm import relax, te, tirx
from tvm.ir import GenericConst
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

import tvm_neocpu
from tvm_neocpu import explain, tune
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.errors import ConfigError, LineError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.core.types import FP32, Types
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.tuning.database.log import TuningLog, load_log

Floats = np.ndarray


@dataclass(frozen=True, order=True)
class Conv1dWorkload(Workload):
    """(N, C, W) and (K, C, S) -> (N, K, OW), without dilation and groups."""

    batch: int
    in_channels: int
    width: int
    out_channels: int
    kernel: int
    stride: int
    padding: tuple[int, int]
    types: Types = FP32

    @property
    def out_width(self) -> int:
        return (self.width + sum(self.padding) - self.kernel) // self.stride + 1

    @property
    def operands(self) -> tuple[Operand, ...]:
        data = (self.batch, self.in_channels, self.width)
        weight = (self.out_channels, self.in_channels, self.kernel)
        return (
            Operand("data", data, self.types.data),
            Operand("weight", weight, self.types.weight, Role.WEIGHT),
        )

    @property
    def out_shape(self) -> tuple[int, int, int]:
        return (self.batch, self.out_channels, self.out_width)

    @property
    def flops(self) -> int:
        return 2 * math.prod(self.out_shape) * self.in_channels * self.kernel

    def args(self) -> list[Any]:
        tensors = [["TENSOR", list(o.shape), o.dtype] for o in self.operands]
        return [*tensors, self.stride, list(self.padding), self.types.output]

    def __str__(self) -> str:
        return f"conv1d {self.in_channels}x{self.width}->{self.out_channels} {self.kernel}"


@dataclass(frozen=True, order=True)
class Conv1dConfig:
    """``oc_bn`` output channels in a vector, ``reg_n`` output pixels in registers."""

    template: ClassVar[str] = "outside_conv1d"

    block: int
    reg_n: int


def decode(template: str, args: list[Any], extras: Mapping[str, Any]) -> Conv1dWorkload:
    if len(args) != 5:
        raise LineError("not a conv1d")
    (_, (n, c, w), _), (_, (k, _, s), _), stride, padding, _ = args
    return Conv1dWorkload(n, c, w, k, s, stride, tuple(padding))


def reference(conv: Conv1dWorkload, data: Floats, weight: Floats) -> Floats:
    padded = np.pad(data, ((0, 0), (0, 0), conv.padding))
    windows = np.lib.stride_tricks.sliding_window_view(padded, conv.kernel, axis=2)
    return np.einsum("ncws,kcs->nkw", windows[:, :, :: conv.stride], weight)


def space(conv: Conv1dWorkload, cpu: Cpu) -> tuple[Conv1dConfig, ...]:
    lanes = cpu.lanes(conv.types.accumulator)
    return tuple(Conv1dConfig(lanes * vectors, n) for vectors in (1, 2) for n in (1, 4, 8))


def compute(
    data: te.Tensor, weight: te.Tensor, conv: Conv1dWorkload, config: Conv1dConfig
) -> te.Tensor:
    left, tiles = conv.padding[0], -(-conv.out_width // config.reg_n)
    length = (tiles * config.reg_n - 1) * conv.stride + conv.kernel
    padded = te.compute(
        (conv.batch, conv.in_channels, length),
        lambda n, c, x: tirx.if_then_else(
            tirx.all(x >= left, x < conv.width + left),
            data[n, c, x - left],
            tirx.const(0, data.dtype),
        ),
        name="pad1d",
    )
    c, s = te.reduce_axis((0, conv.in_channels)), te.reduce_axis((0, conv.kernel))
    blocks = int(weight.shape[0])
    acc = te.compute(
        (conv.batch, blocks, tiles * config.reg_n, config.block),
        lambda n, o, x, i: te.sum(
            padded[n, c, x * conv.stride + s] * weight[o, c, s, i], axis=[c, s]
        ),
        name="acc1d",
        attrs=anchor_attrs(conv, config),
    )
    return te.compute(
        conv.out_shape,
        lambda n, k, x: acc[n, k // config.block, x, k % config.block],
        name="store1d",
    )


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    output = steps.inline_epilogue(sch, sch.get_sblock("store1d"))
    n, o, x, lanes, c, s = sch.get_loops(anchor.block)
    xo, xi = steps.split_off(sch, x, anchor.config.reg_n)
    sch.reorder(n, o, xo, c, s, xi, lanes)
    steps.unroll_all(sch, xi)
    steps.vectorize_lanes(sch, lanes, cpu.unit(anchor.workload.types.accumulator))
    steps.parallel_fused(sch, n, o)
    sch.decompose_reduction(anchor.block, c)
    return output


def packed_shape(conv: Conv1dWorkload, config: Conv1dConfig) -> tuple[int, ...]:
    return (-(-conv.out_channels // config.block), conv.in_channels, conv.kernel, config.block)


def pack_weight(weight: Floats, conv: Conv1dWorkload, config: Conv1dConfig) -> Floats:
    blocks, channels, taps, block = packed_shape(conv, config)
    filled = np.zeros((blocks * block, channels, taps), weight.dtype)
    filled[: conv.out_channels] = weight
    return filled.reshape(blocks, block, channels, taps).transpose(0, 2, 3, 1).copy()


def predict(conv: Conv1dWorkload, config: Conv1dConfig, cpu: Cpu) -> float:
    rate = cpu.peak_gflops(conv.types.accumulator) * 1e9
    return conv.flops / rate * (1 + 1 / config.reg_n) + 1e-6


def read(call: relax.Call) -> Conv1dWorkload | None:
    data, weight = call.args
    attrs = call.attrs
    if not isinstance(weight, GenericConst) or int(attrs.groups) > 1 or int(attrs.dilation[0]) > 1:
        return None
    shape = [int(extent) for extent in data.ty.shape.values]
    filters, _, taps = (int(extent) for extent in weight.value.shape)
    padding = tuple(int(side) for side in attrs.padding)
    return Conv1dWorkload(*shape, filters, taps, int(attrs.strides[0]), padding)


OPERATOR = tvm_neocpu.Operator("conv1d", Conv1dWorkload, decode, reference)
FORM = tvm_neocpu.CallForm(operator="conv1d", op="relax.nn.conv1d", read=read)
IMPLEMENTATION = tvm_neocpu.Implementation(
    name=Conv1dConfig.template,
    config_type=Conv1dConfig,
    guard=lambda conv, cpu: True,
    space=space,
    compute=compute,
    schedule=schedule,
    pack_weight=pack_weight,
    packed_shape=packed_shape,
    cost=predict,
    label=lambda conv, config: "conv1d in vectors",
)


@pytest.fixture
def registered() -> Iterator[None]:
    tvm_neocpu.register_operator(OPERATOR, FORM, [IMPLEMENTATION])
    yield
    tvm_neocpu.unregister_operator("conv1d")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two convolutions over a signal, with bias and ReLU between them."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["data", "w1", "b1"], ["h"], pads=[2, 2], strides=[2]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "w2", "b2"], ["out"], pads=[1, 0]),
    ]
    shapes = {"w1": (24, 6, 5), "b1": (24,), "w2": (19, 24, 2), "b2": (19,)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype("float32") / 4, name)
        for name, shape in shapes.items()
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "signal",
        [value("data", onnx.TensorProto.FLOAT, (1, 6, 61))],
        [value("out", onnx.TensorProto.FLOAT, (1, 19, 31))],
        weights,
    )
    path = tmp_path / "signal.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def outputs(library: Any, image: Floats) -> Floats:
    module = library["default"](tvm.cpu())
    module.set_input("data", image)
    module.run()
    return module.get_output(0).numpy()


def test_the_whole_package_knows_it(
    registered: None,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiled, tuned, logged, built from the log, exported and explained."""
    prove_at_once(monkeypatch)
    image = np.random.default_rng(1).standard_normal((1, 6, 61)).astype("float32")
    session = onnxruntime.InferenceSession(model)
    (expected,) = session.run(None, {"data": image})
    mod, _ = tvm_neocpu.relay.frontend.from_onnx(onnx.load(model))

    graph = ExtractConvGraph(parse_target().cpu)(fold(mod, parse_target().cpu))
    assert [type(workload) for workload in graph.workloads] == [Conv1dWorkload] * 2
    untuned = tvm_neocpu.relay.build(mod, target="llvm")
    np.testing.assert_allclose(outputs(untuned, image), expected, rtol=0, atol=1e-5)

    log = tmp_path / "signal.log"
    assert tune.main([str(model), "--trials", "2", "--log", str(log)]) == 0
    contents = load_log(log)
    assert {record.workload for record in contents.records} >= set(graph.workloads)
    assert all(record.ok for record in contents.records)
    (plan,) = contents.plans.values()
    assert {type(config) for config in plan.configs.values()} == {Conv1dConfig}

    with tvm_neocpu.apply_history_best(log):
        tuned = tvm_neocpu.relay.build(mod, target="llvm")
    tuned.export_library(tmp_path / "signal.so")
    loaded = tvm_neocpu.load(tmp_path / "signal.so")
    np.testing.assert_allclose(outputs(loaded, image), expected, rtol=0, atol=1e-5)

    capsys.readouterr()
    report = tmp_path / "signal.json"
    assert explain.main([str(model), "--log", str(log), "--json", str(report)]) == 0
    assert "conv1d in vectors" in capsys.readouterr().out
    assert "conv1d in vectors" in json.dumps(json.loads(report.read_text()))


def test_the_log_of_a_forgotten_operator_is_skipped(
    model: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    log = TuningLog(tmp_path / "signal.log")
    tvm_neocpu.register_operator(OPERATOR, FORM, [IMPLEMENTATION])
    try:
        mod, _ = tvm_neocpu.relay.frontend.from_onnx(onnx.load(model))
        cpu = parse_target().cpu
        graph = ExtractConvGraph(cpu)(fold(mod, cpu))
        for workload in graph.workloads:
            (config, *_) = space(workload, cpu)
            log.append(Record(workload, config, (1e-4,), cpu.name, cpu.cores))
        log.append_plan(choose_plan(graph, cpu), graph, cpu.name, cpu.cores)
        assert len(log.load().records) == 2 and log.load().plans
    finally:
        tvm_neocpu.unregister_operator("conv1d")
    assert not log.load().records
    assert any("unknown template 'outside_conv1d'" in str(w.message) for w in recwarn)


def test_a_name_that_is_taken_registers_nothing() -> None:
    with pytest.raises(ConfigError, match="'conv2d' exists already"):
        tvm_neocpu.register_operator(
            tvm_neocpu.Operator("conv2d", Conv1dWorkload, decode, reference),
            tvm_neocpu.CallForm(operator="conv2d", op="relax.nn.conv1d", read=read),
        )
    with pytest.raises(ConfigError, match="the form is of 'other'"):
        form = tvm_neocpu.CallForm(operator="other", op="relax.nn.conv1d", read=read)
        tvm_neocpu.register_operator(OPERATOR, form)
    tvm_neocpu.register_operator(OPERATOR, FORM)
    tvm_neocpu.unregister_operator("conv1d")
