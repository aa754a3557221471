"""Convolutions over sequences and volumes: templates take them, layouts flow, numbers are right."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap

import numpy as np
import pytest
import tvm
from onnx_net import Net, check
from quantized_onnx import QDQ, QOPERATOR, network, quantized
from tvm import relax

from tvm_neocpu import relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.pipeline import apply_plan, compute_templates, fold
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.half_weights import with_half_weights
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.targets import parse_target

CPU, BF16_CPU = (
    parse_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={name}").cpu
    for name in ("skylake-avx512", "sapphirerapids")
)


def conv1d(
    net: Net, x: str, shape: tuple[int, int], outputs: int, size: int, **attrs: object
) -> str:
    """``shape``: channels, groups."""
    channels, groups = shape
    weight = net.weight(outputs, channels // groups, size)
    return net("Conv", x, weight, net.weight(outputs), group=groups, **attrs)


def conv3d(
    net: Net, x: str, shape: tuple[int, int], outputs: int, size: int, **attrs: object
) -> str:
    channels, groups = shape
    weight = net.weight(outputs, channels // groups, size, size, size)
    return net("Conv", x, weight, net.weight(outputs), group=groups, **attrs)


def sequences(net: Net) -> str:
    """Chains with everything that works on feature maps, and a transposed convolution."""
    x = net("Relu", net.batch_norm(conv1d(net, "data", (5, 1), 32, 3, pads=[1, 1]), 32))
    y = net("MaxPool", x, kernel_shape=[3], strides=[2], pads=[1, 1])
    y = conv1d(net, net("Sigmoid", y), (32, 1), 32, 5, pads=[4, 4], dilations=[2])
    y = net("Add", y, net("AveragePool", x, kernel_shape=[2], strides=[2], ceil_mode=1))
    y = net("Mul", y, net.constant(net.rng.normal(size=(32, 1))))
    z = conv1d(net, y, (32, 32), 32, 3, pads=[2, 0])
    z = net("Concat", z, conv1d(net, y, (32, 4), 16, 1), axis=1)
    z = net("Slice", z, *starmap(net.integers, [(3, 8), (19, 40), (2, 1)]))
    z = net("ConvTranspose", z, net.weight(32, 12, 4), strides=[2], pads=[1, 1])
    return conv1d(net, net("Relu", z), (12, 1), 7, 3, strides=[3])


def clipped(net: Net) -> str:
    """Operations with arguments behind their tensor."""
    low, high = (net.constant(np.float32(bound)) for bound in (-0.5, 1.5))
    x = net("Clip", conv1d(net, "data", (5, 1), 16, 3), low, high)
    return conv1d(net, net("LeakyRelu", net("HardSwish", x), alpha=0.2), (16, 1), 16, 3)


def volumes(net: Net) -> str:
    """Taps of the output and of the input, groups, dilations, strides along the depth."""
    x = net("Relu", net.batch_norm(conv3d(net, "data", (3, 1), 16, 3, pads=[1] * 6), 16))
    y = conv3d(net, x, (16, 1), 16, 3, pads=[1] * 6)
    x = net("Relu", net("Add", x, net("Mul", y, net.constant(net.rng.normal(size=(16, 1, 1, 1))))))
    y = conv3d(net, x, (16, 4), 24, 2, pads=[1, 0, 1, 0, 1, 0], strides=[1, 2, 1])
    y = net("MaxPool", y, kernel_shape=[1, 2, 2], strides=[1, 1, 2])
    y = conv3d(net, y, (24, 1), 16, 3, pads=[2] * 6, strides=[2, 1, 1], dilations=[2, 1, 2])
    return conv3d(net, net("Concat", y, y, axis=1), (32, 1), 8, 1, strides=[3, 1, 1])


def taps_alone(net: Net) -> str:
    """Kernels of one pixel, whose taps reach out of the volume, with strides and dilations."""
    x = net("Relu", along(net, "data", 3, 32, 3, pads=[1, 0, 0, 1, 0, 0]))
    y = along(net, x, 32, 37, 3, pads=[4, 0, 0, 0, 0, 0], dilations=[2, 1, 1])
    x = net("Relu", net("Add", along(net, x, 32, 37, 1), y))
    x = along(net, x, 37, 24, 2, strides=[2, 1, 1])
    return along(net, net("Sigmoid", x), 24, 7, 3, pads=[1, 0, 0, 1, 0, 0])


def along(
    net: Net, x: str, channels: int, filters: int, taps: int, groups: int = 1, **attrs: object
) -> str:
    weight = net.weight(filters, channels // groups, taps, 1, 1)
    return net("Conv", x, weight, net.weight(filters), group=groups, **attrs)


def read_apart(net: Net) -> str:
    """Two layers over one volume, and images between strides that nobody reads."""
    x = net("Relu", conv3d(net, "data", (3, 1), 32, 1))
    y = conv3d(net, x, (32, 1), 16, 3, pads=[1] * 6, strides=[2, 1, 1])
    z = conv3d(net, x, (32, 1), 16, 1, strides=[2, 1, 1])
    return net("Add", y, z)


def depthwise_volumes(net: Net) -> str:
    """Each channel by itself: padded, strided, dilated, several filters a channel, and a gate."""
    x = net("Relu", conv3d(net, "data", (3, 1), 37, 1))
    y = conv3d(net, x, (37, 37), 37, 3, pads=[1] * 6)
    gate = net("GlobalAveragePool", y)
    gate = net("Sigmoid", conv3d(net, gate, (37, 1), 37, 1))
    y = net("Relu", conv3d(net, net("Mul", y, gate), (37, 1), 24, 1))
    y = along(net, y, 24, 24, 5, groups=24, pads=[2, 0, 0, 2, 0, 0])
    y = conv3d(net, y, (24, 24), 48, 3, pads=[2, 1, 0, 1, 1, 2], strides=[2, 2, 1])
    y = conv3d(net, net("Relu", y), (48, 48), 48, 2, pads=[3, 0, 1] * 2, dilations=[2, 1, 2])
    return conv3d(net, y, (48, 1), 8, 1)


def rows_apart(net: Net) -> str:
    """Depthwise kernels whose rows are dilated: each tap is a convolution of its own."""
    x = net("Relu", conv3d(net, "data", (3, 1), 16, 1))
    x = along(net, x, 16, 16, 3, groups=16, pads=[1, 0, 0] * 2, dilations=[1, 2, 2])
    return conv3d(net, x, (16, 16), 16, 3, pads=[1, 2, 2] * 2, dilations=[1, 2, 2])


def pooled_volumes(net: Net) -> str:
    """Windows over several images: padded, strided, dilated, with a rest, and averages."""
    x = net("Relu", conv3d(net, "data", (3, 1), 16, 3, pads=[1] * 6))
    x = net("MaxPool", x, kernel_shape=[3] * 3, strides=[2, 1, 1], pads=[1] * 6)
    x = net("MaxPool", x, kernel_shape=[2, 3, 3], dilations=[2, 1, 1], pads=[1] * 6)
    x = net("MaxPool", x, kernel_shape=[2] * 3, strides=[3, 2, 2], ceil_mode=1)
    x = net("MaxPool", x, kernel_shape=[1, 2, 2], strides=[2, 1, 1])
    x = net("AveragePool", conv3d(net, x, (16, 1), 16, 1), kernel_shape=[2, 2, 2])
    return conv3d(net, x, (16, 1), 8, 1)


def counted_padding(net: Net) -> str:
    """Averages that leave padding out stay as they are."""
    x = conv3d(net, "data", (3, 1), 16, 1)
    x = net("AveragePool", x, kernel_shape=[3] * 3, pads=[1] * 6)
    return conv3d(net, x, (16, 1), 8, 1)


def deep_padding(net: Net) -> str:
    """Taps that read no image at all."""
    return conv3d(net, "data", (3, 1), 4, 3, pads=[2, 1, 1, 2, 1, 1])


def beside_the_volume(net: Net) -> str:
    """Taps so far apart that no output reads an image."""
    x = net("Relu", conv3d(net, "data", (3, 1), 16, 1))
    pads = [2, 0, 0, 2, 0, 0]
    return along(net, x, 16, 37, 2, pads=pads, dilations=[4, 1, 1])


def upwards(net: Net) -> str:
    """Transposed: taps that overlap, phases of the depth without a tap, groups, dilations."""
    x = net("Relu", transposed(net, "data", (3, 1), 8, 3, pads=[1] * 6, strides=[2] * 3))
    x = transposed(net, x, (8, 1), 6, 2, strides=[3, 1, 2], output_padding=[1, 0, 1])
    x = transposed(net, x, (6, 2), 4, 3, pads=[2, 1, 0, 1, 1, 0], dilations=[2, 1, 1])
    return transposed(net, x, (4, 1), 5, 2, strides=[2, 2, 1], pads=[1, 0, 1, 0, 1, 1])


def transposed(
    net: Net, x: str, shape: tuple[int, int], outputs: int, size: int, **attrs: object
) -> str:
    channels, groups = shape
    weight = net.weight(channels, outputs // groups, size, size, size)
    return net("ConvTranspose", x, weight, net.weight(outputs), group=groups, **attrs)


NETS: dict[str, tuple[tuple[int, ...], Callable[[Net], str]]] = {
    "sequences": ((2, 5, 53), sequences),
    "clipped": ((1, 5, 33), clipped),
    "volumes": ((1, 3, 6, 9, 8), volumes),
    "several volumes": ((2, 3, 5, 9, 7), volumes),
    "taps alone": ((1, 3, 6, 5, 8), taps_alone),
    "several volumes' taps": ((3, 3, 6, 5, 8), taps_alone),
    "beside the volume": ((1, 3, 1, 9, 8), beside_the_volume),
    "read apart": ((1, 3, 7, 9, 8), read_apart),
    "depthwise volumes": ((1, 3, 6, 9, 8), depthwise_volumes),
    "several depthwise volumes": ((2, 3, 5, 9, 7), depthwise_volumes),
    "rows apart": ((1, 3, 4, 9, 8), rows_apart),
    "pooled volumes": ((1, 3, 15, 9, 8), pooled_volumes),
    "several pooled volumes": ((2, 3, 14, 8, 9), pooled_volumes),
    "transposed volumes": ((1, 3, 3, 4, 5), upwards),
    "several transposed volumes": ((2, 3, 2, 3, 5), upwards),
    "deep padding": ((1, 3, 1, 5, 6), deep_padding),
}


def folded(case: str) -> tvm.IRModule:
    shape, build = NETS[case]
    net = Net(shape)
    return fold(relay.frontend.from_onnx(net.model(build(net)))[0], CPU)


@pytest.mark.parametrize("case", NETS)
def test_numbers(case: str) -> None:
    shape, build = NETS[case]
    net = Net(shape)
    check(net.model(build(net)))


def test_averages_that_leave_padding_out_are_left() -> None:
    net = Net((1, 3, 4, 6, 5))
    model = net.model(counted_padding(net))
    assert calls(fold(relay.frontend.from_onnx(model)[0], CPU), "avg_pool3d")
    check(model)


@pytest.mark.parametrize("case", NETS)
def test_templates_take_every_convolution(case: str) -> None:
    mod = folded(case)
    assert FindFallbacks(CPU)(mod).fallbacks == ()
    assert not calls(mod, "conv1d") + calls(mod, "conv3d")  # "conv3d_transpose" too
    # What is in between works on the feature maps too.
    assert not calls(mod, "batch_norm") + calls(mod, "pool1d") + calls(mod, "pool3d")


@pytest.mark.parametrize("case", ["taps alone", "depthwise volumes"])
def test_templates_find_the_images_of_a_volume(case: str) -> None:
    """No copy of them is left, nor sums of taps."""
    mod = folded(case)
    plan = choose_plan(graph := ExtractConvGraph(CPU)(mod), CPU)
    computed = compute_templates(apply_plan(mod, plan, CPU), plan.by_layout(graph), CPU)
    names = {str(name.name_hint) for name in computed.functions}
    copies = ("take", "pad", "depth_rows")
    assert not [name for name in names if any(copy in name for copy in copies)]
    # In front of the network and behind it.
    assert sum("transpose" in name for name in names) == 2


@pytest.mark.parametrize(
    ("channels", "filters", "size", "adds_up"),
    [
        (64, 64, 3, False),
        (128, 32, 3, True),
        (32, 32, 5, True),
        (64, 5, 1, True),
        (64, 6, 1, False),
    ],
)
def test_what_is_added_up(channels: int, filters: int, size: int, adds_up: bool) -> None:
    """Few filters for all taps; images that Winograd would transform for each tap, in fp32."""
    net = Net((1, channels, 4, 8, 8))
    weight = net.weight(filters, channels, 3, size, size)
    pads = [1, size // 2, size // 2] * 2
    model = net.model(net("Conv", "data", weight, pads=pads))
    mod = relay.frontend.from_onnx(model)[0]
    rounded = with_half_weights(mod, "bfloat16")
    for each, cpu, expected in (
        (mod, CPU, adds_up),
        (rounded, CPU, adds_up),  # which stores weights in bf16, and multiplies fp32
        (rounded, BF16_CPU, filters == 5),
    ):
        assert bool(calls(fold(each, cpu), "strided_slice")) == expected


@pytest.mark.parametrize(("case", "transforms"), [("sequences", 2), ("clipped", 2), ("volumes", 2)])
def test_blocks_flow_from_one_convolution_to_the_next(case: str, transforms: int) -> None:
    mod = folded(case)
    graph = ExtractConvGraph(CPU)(mod)
    altered = apply_plan(mod, choose_plan(graph, CPU), CPU)
    assert count_transforms(altered) <= transforms


@pytest.mark.parametrize("form", [QDQ, QOPERATOR])
def test_quantised_volumes_are_images_too(form: object) -> None:
    """Weights that a file has as codes, one scale a filter; integers remain of the layers."""
    graph = """g (float[1,8,4,6,6] x) => (float[1,16,4,6,6] y) {
        a = Conv<kernel_shape=[3,3,3], pads=[1,1,1,1,1,1]>(x, w)
        b = Relu(a)
        y = Conv<kernel_shape=[3,1,1], pads=[1,0,0,1,0,0]>(b, v)
    }"""
    drawn = network(graph, w=(16, 8, 3, 3, 3), v=(16, 16, 3, 1, 1))
    mod = fold(relay.frontend.from_onnx(quantized(drawn, form=form, per_channel=True))[0], CPU)
    assert len(ExtractConvGraph(CPU)(mod).convs) == 2
    assert {str(w.types) for w in ExtractConvGraph(CPU)(mod).workloads} == {"uint8 x int8"}


def test_what_is_not_over_maps_keeps_its_tensor() -> None:
    """A transpose and a result that two readers share, and a pad in front of a convolution."""
    net = Net((1, 4, 9))
    x = conv1d(net, "data", (4, 1), 8, 3)
    y = net("Transpose", net("Relu", x), perm=[0, 2, 1])
    y = net("Transpose", net("Softmax", y, axis=-1), perm=[0, 2, 1])
    check(net.model(net("Add", conv1d(net, y, (8, 1), 8, 1), x)))


def calls(mod: tvm.IRModule, name: str) -> list[relax.Expr]:
    found: list[relax.Expr] = []

    def visit(expr: relax.Expr) -> None:
        if name in op_name(expr):
            found.append(expr)

    relax.analysis.post_order_visit(mod["main"], visit)
    return found
