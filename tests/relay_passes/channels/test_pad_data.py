"""Convolutions over broken vectors: dead channels where they pay, and right numbers."""

from __future__ import annotations

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.channels.pad_data import dead_channels
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu


def depthwise(channels: int, size: int = 28, kernel: int = 5, multiplier: int = 1) -> ConvWorkload:
    window = (kernel, kernel), (1, 1), (kernel // 2,) * 4, (1, 1)
    return ConvWorkload(1, channels, size, size, channels * multiplier, *window, groups=channels)


@pytest.mark.parametrize(
    ("channels", "dead"), [(44, 4), (17, 7), (22, 2), (48, 0), (24, 0), (3, 0)]
)
def test_dead_channels_fill_vectors(channels: int, dead: int) -> None:
    assert dead_channels(depthwise(channels), CPU) == dead


def test_moving_a_map_must_pay() -> None:
    assert dead_channels(depthwise(44, kernel=1), CPU) == 0


def dense(channels: int, filters: int = 64, size: int = 64, kernel: int = 3) -> ConvWorkload:
    pads = (kernel // 2,) * 4
    return ConvWorkload(1, channels, size, size, filters, (kernel, kernel), (1, 1), pads)


@pytest.mark.parametrize(
    ("conv", "dead"),
    [
        (dense(565), 3),  # blocks of 5, and no Winograd
        (dense(117, 128), 3),
        (dense(576), 0),
        (dense(565, kernel=1), 0),  # a copy takes longer than it spares
        (dense(3), 0),
        (dense(20, 32), 0),
    ],
)
def test_dead_inputs_of_dense_layers(conv: ConvWorkload, dead: int) -> None:
    assert dead_channels(conv, CPU) == dead


def test_layers_over_one_concat_share_what_is_padded() -> None:
    """As in optical flow: features, a correlation and a flow, read by two layers."""
    net = Net((1, 32, 40, 40))
    x = net("Relu", net.conv("data", 32, 83, 3))
    x = net("Concat", x, net.conv("data", 32, 34), axis=1)
    y = net("Concat", net.conv(x, 117, 64, 3), net.conv(x, 117, 32, 3), axis=1)
    model = net.model(y)
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    convs = [conv for value in values if (conv := conv_workload(value)) is not None]
    assert sum(op_name(value) == "relax.nn.pad" for value in values) == 1
    assert sum(conv.in_channels == 120 for conv in convs) == 2
    check(model)


def network(shape: tuple[int, int, int, int], kernel: int, **attributes: object) -> onnx.ModelProto:
    net, channels = Net(shape), shape[1]
    weights = net.weight(channels, 1, kernel, kernel), net.weight(channels)
    pads = [kernel // 2] * 4
    return net.model(
        net("Relu", net("Conv", "data", *weights, group=channels, pads=pads, **attributes))
    )


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ((1, 17, 23, 19), 3, {}),
        ((2, 44, 13, 11), 5, {"strides": [2, 2]}),
        ((1, 22, 14, 9), 3, {"dilations": [2, 3]}),
    ],
)
def test_numbers(
    shape: tuple[int, int, int, int], kernel: int, attributes: dict[str, object]
) -> None:
    model = network(shape, kernel, **attributes)
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
    (conv,) = filter(None, (conv_workload(binding.value) for binding in bindings))
    assert conv.in_channels % 8 == 0
    check(model)


def test_phases_of_a_transposed_convolution_share_what_is_padded() -> None:
    net = Net((1, 21, 14, 14))
    attributes = {"group": 21, "strides": [2, 2], "pads": [1] * 4}
    model = net.model(net("ConvTranspose", "data", net.weight(21, 1, 4, 4), **attributes))
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    assert sum(op_name(value) == "relax.nn.pad" for value in values) == 1
    assert sum(conv_workload(value) is not None for value in values) == 4
    check(model)
