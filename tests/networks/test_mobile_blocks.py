"""Blocks of mobile networks, as ONNX: SiLU and hard swish, squeeze-excite, upsampling."""

from __future__ import annotations

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import pipeline, relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target

TARGET = parse_target()


def silu(net: Net, x: str) -> str:
    return net("Mul", x, net("Sigmoid", x))


def excited(net: Net, x: str, channels: int, squeezed: int) -> str:
    gate = silu(net, net.conv(net("GlobalAveragePool", x), channels, squeezed))
    return net("Mul", x, net("Sigmoid", net.conv(gate, squeezed, channels)))


def efficient_block(shape: tuple[int, ...], expanded: int = 96) -> onnx.ModelProto:
    """Expand, depthwise, squeeze-excite, project, residual: EfficientNet's MBConv."""
    net, channels = Net(shape), shape[1]
    x = silu(net, net.batch_norm(net.conv("data", channels, expanded), expanded))
    x = net.batch_norm(net.conv(x, expanded, expanded, 3, expanded), expanded)
    x = excited(net, silu(net, x), expanded, channels // 4)
    return net.model(net("Add", net.batch_norm(net.conv(x, expanded, channels), channels), "data"))


def mobile_block(shape: tuple[int, ...]) -> onnx.ModelProto:
    """The same with hard swish and a hard sigmoid gate: MobileNet-v3."""
    net, channels = Net(shape), shape[1]
    x = net("HardSwish", net.batch_norm(net.conv("data", channels, 48), 48))
    x = net("HardSwish", net.conv(x, 48, 48, 3, 48))
    gate = net("Relu", net.conv(net("GlobalAveragePool", x), 48, 12))
    x = net("Mul", x, net("HardSigmoid", net.conv(gate, 12, 48)))
    return net.model(net("Add", net.conv(x, 48, channels), "data"))


def pyramid(mode: str, coordinates: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A convolution's result upsampled and added to a finer one: a feature pyramid."""
    net = Net(shape)
    coarse = net("MaxPool", net.conv("data", 16, 32), kernel_shape=[2, 2], strides=[2, 2])
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
    fine = net("Resize", silu(net, coarse), "", net.constant([1, 1, 2, 2]), **attributes)
    return net.model(net.conv(net("Add", fine, net.conv("data", 16, 32)), 32, 16, 3))


@pytest.mark.parametrize("shape", [(1, 16, 14, 14), (2, 16, 7, 11), (1, 16, 1, 1)])
def test_efficient_block(shape: tuple[int, ...]) -> None:
    check(efficient_block(shape))


def test_mobile_block() -> None:
    check(mobile_block((1, 24, 13, 9)))


PYRAMIDS = [
    ("nearest", "asymmetric"),
    ("linear", "half_pixel"),
    ("linear", "align_corners"),
    ("linear", "asymmetric"),
]


@pytest.mark.parametrize(("mode", "coordinates"), PYRAMIDS)
def test_pyramid(mode: str, coordinates: str) -> None:
    check(pyramid(mode, coordinates, (1, 16, 10, 14)))


def test_blocks_flow_in_one_layout() -> None:
    """Only what enters and leaves is moved: no activation, gate, pool or resize is."""
    for model in (
        efficient_block((1, 16, 14, 14)),
        pyramid("linear", "half_pixel", (1, 16, 8, 8)),
    ):
        mod, _ = relay.frontend.from_onnx(model)
        folded = pipeline.fold(mod, TARGET.cpu)
        graph = ExtractConvGraph(TARGET.cpu)(folded)
        altered = pipeline.apply_plan(folded, choose_plan(graph, TARGET.cpu), TARGET.cpu)
        assert count_transforms(altered) <= 3
        assert "relax.sigmoid" not in altered.script() or "silu" in altered.script()
