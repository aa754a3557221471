"""Group normalisations: right for any groups, over sequences and images, between blocked layers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.pipeline import apply_plan, fold
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.regions import bindings_of
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").cpu
IMAGE, SEQUENCE = (2, 5, 9, 7), (1, 5, 33)


def conv(net: Net, x: str, channels: int, outputs: int, size: int = 3) -> str:
    spatial = len(net.shape) - 2
    weight = net.weight(outputs, channels, *[size] * spatial)
    return net("Conv", x, weight, net.weight(outputs), pads=[size // 2] * 2 * spatial)


def group_norm(net: Net, x: str, groups: int, offset: float = 0.0) -> str:
    """As PyTorch's exporter writes it, with a scale and a bias for each group."""
    rows = net("Reshape", x, net.integers(0, groups, -1))
    scale, bias = (net.constant(net.rng.uniform(0.5, 1.5, groups) + add) for add in (0, offset))
    normal = net("InstanceNormalization", rows, scale, bias, epsilon=1e-3)
    return net("Reshape", normal, net.integers(*net.shape[:1], 32, *net.shape[2:]))


def between_layers(groups: int, offset: float = 0.0) -> Callable[[Net], str]:
    """Affine and activated, and read by two convolutions."""

    def build(net: Net) -> str:
        ones = [1] * (len(net.shape) - 2)
        x = group_norm(net, conv(net, "data", 5, 32), groups, offset)
        x = net("Mul", x, net.constant(net.rng.uniform(0.5, 1.5, (32, *ones))))
        x = net("Relu", net("Add", x, net.constant(net.rng.normal(size=(32, *ones)))))
        return net("Add", conv(net, x, 32, 32), conv(net, x, 32, 32, 1))

    return build


def folded(shape: tuple[int, ...], build: Callable[[Net], str]) -> tvm.IRModule:
    net = Net(shape)
    return fold(relay.frontend.from_onnx(net.model(build(net)))[0], CPU)


def operators(mod: tvm.IRModule) -> set[str]:
    return {op_name(binding.value) for binding in bindings_of(mod["main"])}


@pytest.mark.parametrize("shape", [IMAGE, SEQUENCE])
@pytest.mark.parametrize(("groups", "offset"), [(1, 0.0), (2, -1.0), (8, 0.5), (32, 0.0)])
def test_numbers(shape: tuple[int, ...], groups: int, offset: float) -> None:
    """Of 32 groups each channel is normalised by itself, as layouts know it."""
    net = Net(shape)
    check(net.model(between_layers(groups, offset)(net)))


def test_a_large_mean_costs_no_digits() -> None:
    """A sum of squares would: 1e6 beside a variance of 1."""
    net = Net(IMAGE)
    x = net("Add", conv(net, "data", 5, 32), net.constant(np.float32(1e3)))
    check(net.model(conv(net, group_norm(net, x, 4), 32, 16)))


@pytest.mark.parametrize("shape", [IMAGE, SEQUENCE])
@pytest.mark.parametrize("groups", [1, 8, 32])
def test_blocks_flow_through(shape: tuple[int, ...], groups: int) -> None:
    """Two transforms: of what enters the network, and of what leaves it."""
    mod = folded(shape, between_layers(groups))
    assert ("relax.nn.instance_norm" in operators(mod)) == (groups == 32)
    altered = apply_plan(mod, choose_plan(ExtractConvGraph(CPU)(mod), CPU), CPU)
    large = count_transforms(altered) - (4 if groups != 32 else 0)  # those of means: 1 x 1 pixels
    assert large <= 2


def test_volumes_are_left() -> None:
    """They are normalised over all their images together, of which each would have a mean."""
    net = Net((2, 32, 3, 5, 7))
    mod = fold(relay.frontend.from_onnx(net.model(group_norm(net, "data", 4)))[0], CPU)
    assert "relax.nn.instance_norm" in operators(mod)


def test_a_scale_that_is_computed_is_left() -> None:
    net = Net(IMAGE)
    x = conv(net, "data", 5, 32)
    rows = net("Reshape", x, net.integers(0, 4, -1))
    computed = net("Slice", net("Reshape", "data", net.integers(-1)), *map(net.integers, (0, 4)))
    normal = net("InstanceNormalization", rows, computed, net.weight(4))
    model = net.model(net("Reshape", normal, net.integers(2, 32, 9, 7)))
    assert "relax.nn.instance_norm" in operators(fold(relay.frontend.from_onnx(model)[0], CPU))
    check(model)
