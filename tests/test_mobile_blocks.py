"""Blocks of mobile networks, as ONNX: SiLU and hard swish, squeeze-excite, upsampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu import pipeline, relay
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.layout_transform import count_transforms
from tvm_neocpu.target import parse_target

ort = pytest.importorskip("onnxruntime")
Array = NDArray[np.float32]

TARGET = parse_target()


class Net:
    """Writes nodes down; each method returns the name of its result."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def weight(self, values: NDArray[Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, x: str, inputs: int, outputs: int, size: int = 1, groups: int = 1) -> str:
        shape = (outputs, inputs // groups, size, size)
        scale = np.sqrt(inputs // groups * size * size)
        values = (self.rng.normal(size=shape) / scale).astype("float32")
        return self("Conv", x, self.weight(values), pads=[size // 2] * 4, group=groups)

    def batch_norm(self, x: str, channels: int) -> str:
        low, high = np.array([[0.5, -0.5, -0.5, 0.5], [1.5, 0.5, 0.5, 1.5]])
        parts = self.rng.uniform(low, high, (channels, 4)).T.astype("float32")
        return self("BatchNormalization", x, *(self.weight(part) for part in parts))

    def silu(self, x: str) -> str:
        return self("Mul", x, self("Sigmoid", x))

    def excited(self, x: str, channels: int, squeezed: int) -> str:
        gate = self.silu(self.conv(self("GlobalAveragePool", x), channels, squeezed))
        return self("Mul", x, self("Sigmoid", self.conv(gate, squeezed, channels)))

    def model(self, result: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [result], ["out"]))
        graph = helper.make_graph(
            self.nodes,
            "block",
            [helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, [None] * 4)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def efficient_block(channels: int = 16, expanded: int = 96) -> Net:
    """Expand, depthwise, squeeze-excite, project, residual: EfficientNet's MBConv."""
    net = Net()
    x = net.silu(net.batch_norm(net.conv("data", channels, expanded), expanded))
    x = net.batch_norm(net.conv(x, expanded, expanded, 3, expanded), expanded)
    x = net.excited(net.silu(x), expanded, channels // 4)
    net("Add", net.batch_norm(net.conv(x, expanded, channels), channels), "data")
    return net


def mobile_block(channels: int = 24) -> Net:
    """The same with hard swish and a hard sigmoid gate: MobileNet-v3."""
    net = Net()
    x = net("HardSwish", net.batch_norm(net.conv("data", channels, 48), 48))
    x = net("HardSwish", net.conv(x, 48, 48, 3, 48))
    gate = net("Relu", net.conv(net("GlobalAveragePool", x), 48, 12))
    x = net("Mul", x, net("HardSigmoid", net.conv(gate, 12, 48)))
    net("Add", net.conv(x, 48, channels), "data")
    return net


def pyramid(mode: str, coordinates: str) -> Net:
    """A convolution's result upsampled and added to a finer one: a feature pyramid."""
    net = Net()
    coarse = net("MaxPool", net.conv("data", 16, 32), kernel_shape=[2, 2], strides=[2, 2])
    scales = net.weight(np.array([1, 1, 2, 2], "float32"))
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    fine = net("Resize", net.silu(coarse), "", scales, **attributes)
    net.conv(net("Add", fine, net.conv("data", 16, 32)), 32, 16, 3)
    return net


def check(model: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(1).normal(size=shape).astype("float32")
    mod, params = relay.frontend.from_onnx(model, {"data": shape})
    lib = relay.build(mod, target="llvm", params=params)
    module = lib["default"](tvm.cpu())
    module.set_input("data", data)
    module.run()
    found = module.get_output(0).numpy()
    session = ort.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"data": data})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(1, 16, 14, 14), (2, 16, 7, 11), (1, 16, 1, 1)])
def test_efficient_block(shape: tuple[int, ...]) -> None:
    net = efficient_block()
    check(net.model(net.nodes[-1].output[0], shape), shape)


def test_mobile_block() -> None:
    net, shape = mobile_block(), (1, 24, 13, 9)
    check(net.model(net.nodes[-1].output[0], shape), shape)


PYRAMIDS = [
    ("nearest", "asymmetric"),
    ("linear", "half_pixel"),
    ("linear", "align_corners"),
    ("linear", "asymmetric"),
]


@pytest.mark.parametrize(("mode", "coordinates"), PYRAMIDS)
def test_pyramid(mode: str, coordinates: str) -> None:
    net, shape = pyramid(mode, coordinates), (1, 16, 10, 14)
    check(net.model(net.nodes[-1].output[0], shape), shape)


def test_blocks_flow_in_one_layout() -> None:
    """Only what enters and leaves is moved: no activation, gate, pool or resize is."""
    nets = [(efficient_block(), (1, 16, 14, 14)), (pyramid("linear", "half_pixel"), (1, 16, 8, 8))]
    for net, shape in nets:
        model = net.model(net.nodes[-1].output[0], shape)
        mod, _ = relay.frontend.from_onnx(model, {"data": shape})
        folded = pipeline.fold(mod, TARGET.cpu)
        graph = ExtractConvGraph(TARGET.cpu)(folded)
        altered = pipeline.apply_plan(folded, pipeline.choose_plan(graph, TARGET.cpu), TARGET.cpu)
        assert count_transforms(altered) <= 3
        assert "relax.sigmoid" not in altered.script() or "silu" in altered.script()
