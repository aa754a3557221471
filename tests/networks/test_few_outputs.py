"""Networks that end in few channels: what is fused in front of the last layer, and behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import pipeline, relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig

CPU = parse_target("llvm -mcpu=skylake-avx512").cpu

SHAPE = (2, 8, 27, 40)


def features(net: Net) -> str:
    return net.conv("data", 8, 24, 3)


def concat(net: Net) -> str:
    return net("Concat", features(net), net("Relu", net.conv("data", 8, 24, 3)), axis=1)


def gated(net: Net) -> str:
    x = concat(net)
    gate = net("Sigmoid", net.conv(net("GlobalAveragePool", x), 48, 48))
    return net("Mul", x, gate)


def normalised(net: Net) -> str:
    return net("Relu", net.batch_norm(concat(net), 48))


IN_FRONT: dict[str, tuple[Callable[[Net], str], int]] = {
    "a convolution": (features, 24),
    "a concat": (concat, 48),
    "a gate": (gated, 48),
    "a normalisation": (normalised, 48),
}
LAST: dict[str, tuple[int, dict[str, Any]]] = {
    "one output": (1, {"size": 3}),
    "three of 5x5": (3, {"size": 5}),
    "a 1x1": (2, {"size": 1}),
    "without padding": (3, {"size": 3, "pads": [0] * 4}),
    "dilated, strided": (2, {"size": 3, "pads": [2] * 4, "dilations": [2, 2], "strides": [2, 1]}),
}


def ending(front: str, last: str) -> onnx.ModelProto:
    """Behind the last layer another one's result is added, and a long function follows."""
    (make, channels), (outputs, attributes) = IN_FRONT[front], LAST[last]
    net = Net(SHAPE, biases=True)
    y = net.conv(make(net), channels, outputs, **attributes)
    other = net.conv("data", 8, outputs, **attributes)
    return net.model(net("Sigmoid", net("Add", y, other)))


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("front", IN_FRONT)
def test_what_is_fused_around_the_last_layer(front: str, last: str) -> None:
    check(ending(front, last))


@pytest.mark.parametrize("last", [each for each in LAST if each != "a 1x1"])
def test_plans_take_sums_over_lanes(last: str) -> None:
    """So that the test above is one of the template. A 1x1 layer waits for memory either way."""
    mod, _ = relay.frontend.from_onnx(ending("a concat", last))
    graph = ExtractConvGraph(CPU)(pipeline.fold(mod, CPU))
    assert FewConfig in map(type, choose_plan(graph, CPU).configs.values())
