"""Normalised in front of the convolution, as ONNX: DenseNet's and ResNet-v2's blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu import pipeline, relay
from tvm_neocpu.contrib.model_zoo import build
from tvm_neocpu.target import parse_target

ort = pytest.importorskip("onnxruntime")

TARGET = parse_target()


class Net:
    """Writes nodes down; each method returns the name of its result."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def weight(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype("float32"), name))
        return name

    def conv(self, x: str, inputs: int, outputs: int, size: int = 1, **attributes: Any) -> str:
        shape = (outputs, inputs // attributes.get("group", 1), size, size)
        values = self.rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        return self("Conv", x, self.weight(values), **attributes)

    def normalised(self, x: str, channels: int) -> str:
        """Batch norm and ReLU. A shift above zero: padding in front of it would show."""
        low, high = np.array([[0.5, 0.5, -0.5, 0.5], [1.5, 1.5, 0.5, 1.5]])
        parts = self.rng.uniform(low, high, (channels, 4)).T
        return self("Relu", self("BatchNormalization", x, *(self.weight(part) for part in parts)))

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


def functions(model: onnx.ModelProto) -> list[str]:
    """The functions that the built network calls, in order."""
    mod, _ = relay.frontend.from_onnx(model)
    main = pipeline.lower(mod, TARGET.cpu)["main"]
    values = [b.value for block in main.body.blocks for b in block.bindings]
    return [str(v.args[0].name_hint) for v in values if "call_tir" in str(getattr(v, "op", ""))]


def standalone(names: list[str]) -> list[str]:
    """Those that only scale or concatenate."""
    return [n for n in names if "conv2d" not in n and ("multiply" in n or "concat" in n)]


def check(model: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(1).normal(size=shape).astype("float32")
    mod, _ = relay.frontend.from_onnx(model)
    machine = tvm.relax.VirtualMachine(pipeline.compile_module(mod, TARGET), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(data))
    found = (found if hasattr(found, "numpy") else found[0]).numpy()
    session = ort.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"data": data})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


SHAPES = [(1, 16, 14, 14), (2, 13, 7, 11), (1, 13, 1, 1)]
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "1x1": {},
    "3x3": {"size": 3, "pads": [1, 1, 1, 1]},
    "asymmetric": {"size": 3, "pads": [2, 0, 0, 2]},
    "dilated": {"size": 3, "pads": [2, 2, 2, 2], "dilations": [2, 2]},
    "strided": {"size": 3, "pads": [1, 1, 1, 1], "strides": [2, 2]},
    "strided 1x1": {"strides": [2, 2]},
    "depthwise": {"size": 3, "pads": [1, 1, 1, 1], "group": 26},
    "grouped": {"size": 3, "pads": [1, 1, 1, 1], "group": 2},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_the_block_of_a_pre_activation_resnet(kind: str, shape: tuple[int, ...]) -> None:
    """The sum of two branches, one of them normalised first: a residual behind, where it fits."""
    net, attributes = Net(), CONVOLUTIONS[kind]
    x = net.conv("data", shape[1], 26)
    y = net.conv(net.normalised(x, 26), 26, 26, **attributes)
    shortcut = net.conv(x, 26, 26, strides=[2, 2]) if "strides" in attributes else x
    model = net.model(net("Add", y, shortcut), shape)
    # Single pixels go to the im2col template, which reads its data from memory.
    if shape[2:] != (1, 1):
        assert standalone(functions(model)) == []
    check(model, shape)


def dense_block(growth: int, shape: tuple[int, ...]) -> onnx.ModelProto:
    net, channels = Net(), 2 * growth
    x = net("MaxPool", net.conv("data", shape[1], channels), kernel_shape=[1, 1])
    for _ in range(4):
        y = net.conv(net.normalised(x, channels), channels, 2 * growth)
        y = net.normalised(y, 2 * growth)
        y = net.conv(y, 2 * growth, growth, size=3, pads=[1, 1, 1, 1])
        x, channels = net("Concat", x, y, axis=1), channels + growth
    return net.model(net.conv(net.normalised(x, channels), channels, 17), shape)


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_a_dense_block(shape: tuple[int, ...]) -> None:
    model = dense_block(16, shape)
    assert standalone(functions(model)) == []
    check(model, shape)


@pytest.mark.parametrize(("growth", "shape"), [(7, SHAPES[1]), (12, SHAPES[1]), (16, SHAPES[2])])
def test_a_dense_block_of_several_layouts(growth: int, shape: tuple[int, ...]) -> None:
    """Where the concat's block is not the convolution's, a transform stands between them."""
    check(dense_block(growth, shape), shape)


def test_what_two_convolutions_read_is_computed_once() -> None:
    net, shape = Net(), (1, 16, 9, 7)
    x = net.conv("data", 16, 32)
    chain = net.normalised(x, 32)
    both = net("Add", net.conv(chain, 32, 32), net.conv(chain, 32, 32, size=3, pads=[1] * 4))
    model = net.model(net("Add", both, x), shape)
    assert len(standalone(functions(model))) == 1
    check(model, shape)


def test_densenet_neither_scales_nor_concatenates_on_its_own() -> None:
    """Of its 58 concats and 62 chains the last, in front of the mean, is left."""
    names = functions(build("densenet121"))
    assert len(standalone(names)) == 1
    assert sum("conv2d" in name for name in names) == 120
