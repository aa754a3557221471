"""Normalised in front of the convolution, as ONNX: DenseNet's and ResNet-v2's blocks."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx_net import Net, check
from tvm.ir import GlobalVar

from tvm_neocpu import pipeline, relay
from tvm_neocpu.contrib.model_zoo import build
from tvm_neocpu.targets import parse_target

# Which functions there are depends on the plan, and the plan on the CPU.
TARGET = parse_target("llvm -mcpu=skylake-avx512")


def normalised(net: Net, x: str, channels: int) -> str:
    return net("Relu", net.batch_norm(x, channels))


def functions(model: onnx.ModelProto) -> list[str]:
    """The functions that the built network calls, in order."""
    mod, _ = relay.frontend.from_onnx(model)
    main = pipeline.lower(mod, TARGET.cpu)["main"]
    called = [getattr(b.value, "op", None) for block in main.body.blocks for b in block.bindings]
    names = [str(each.name_hint) for each in called if isinstance(each, GlobalVar)]
    assert names
    return names


def standalone(names: list[str]) -> list[str]:
    """Those that only scale or concatenate."""
    return [n for n in names if "conv2d" not in n and ("multiply" in n or "concat" in n)]


SHAPES = [(1, 16, 14, 14), (2, 13, 7, 11), (1, 13, 1, 1)]
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "1x1": {},
    "3x3": {"size": 3},
    "asymmetric": {"size": 3, "pads": [2, 0, 0, 2]},
    "dilated": {"size": 3, "pads": [2, 2, 2, 2], "dilations": [2, 2]},
    "strided": {"size": 3, "strides": [2, 2]},
    "strided 1x1": {"strides": [2, 2]},
    "depthwise": {"size": 3, "group": 26},
    "grouped": {"size": 3, "group": 2},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_the_block_of_a_pre_activation_resnet(kind: str, shape: tuple[int, ...]) -> None:
    """The sum of two branches, one of them normalised first: a residual behind, where it fits."""
    net, attributes = Net(shape), CONVOLUTIONS[kind]
    x = net.conv("data", shape[1], 26)
    y = net.conv(normalised(net, x, 26), 26, 26, **attributes)
    shortcut = net.conv(x, 26, 26, strides=[2, 2]) if "strides" in attributes else x
    model = net.model(net("Add", y, shortcut))
    # Single pixels go to the im2col template, which reads its data from memory.
    if shape[2:] != (1, 1):
        assert standalone(functions(model)) == []
    check(model)


def dense_block(growth: int, shape: tuple[int, ...]) -> onnx.ModelProto:
    net, channels = Net(shape), 2 * growth
    x = net("MaxPool", net.conv("data", shape[1], channels), kernel_shape=[1, 1])
    for _ in range(4):
        y = net.conv(normalised(net, x, channels), channels, 2 * growth)
        y = normalised(net, y, 2 * growth)
        y = net.conv(y, 2 * growth, growth, size=3)
        x, channels = net("Concat", x, y, axis=1), channels + growth
    return net.model(net.conv(normalised(net, x, channels), channels, 17))


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_a_dense_block(shape: tuple[int, ...]) -> None:
    model = dense_block(16, shape)
    assert standalone(functions(model)) == []
    check(model)


@pytest.mark.parametrize(("growth", "shape"), [(7, SHAPES[1]), (12, SHAPES[1]), (16, SHAPES[2])])
def test_a_dense_block_of_several_layouts(growth: int, shape: tuple[int, ...]) -> None:
    """Where the concat's block is not the convolution's, a transform stands between them."""
    check(dense_block(growth, shape))


def test_what_two_convolutions_read_is_computed_once() -> None:
    net = Net((1, 16, 9, 7))
    x = net.conv("data", 16, 32)
    chain = normalised(net, x, 32)
    # A sum of the two as they are would be one convolution.
    one, other = (net("Relu", net.conv(chain, 32, 32, size=size)) for size in (1, 3))
    model = net.model(net("Add", net("Add", one, other), x))
    assert len(standalone(functions(model))) == 1
    check(model)


def test_densenet_neither_scales_nor_concatenates_on_its_own() -> None:
    """Of its 58 concats and 62 chains the last, in front of the mean, is left."""
    names = functions(build("densenet121"))
    assert len(standalone(names)) == 1
    assert sum("conv2d" in name for name in names) == 120
