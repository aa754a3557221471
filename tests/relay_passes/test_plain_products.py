"""1x1 convolutions of plain images to odd channels: products where they pay, and right numbers."""

from __future__ import annotations

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.operators.batch_matmul import matmul_workload
from tvm_neocpu.relay_passes.plain_products import pays
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu


@pytest.mark.parametrize(("channels", "product"), [(33, True), (32, False), (5, False)])
def test_odd_channels_are_a_product(channels: int, product: bool) -> None:
    assert pays(ConvWorkload(1, 17, 57, 57, channels, (1, 1)), CPU) == product


@pytest.mark.parametrize(("channels", "product"), [(60, True), (96, False), (12, False)])
def test_groups_of_odd_channels_are_products(channels: int, product: bool) -> None:
    assert pays(ConvWorkload(1, 240, 28, 28, channels, (1, 1), groups=3), CPU) == product


def network(*tail: str, kernel: int = 1, groups: int = 1) -> onnx.ModelProto:
    net = Net((2, 17 * groups, 23, 19))
    filters = 33 * groups
    found = net(
        "Conv", "data", net.weight(filters, 17, kernel, kernel), net.weight(filters), group=groups
    )
    for operator in tail:
        found = net(operator, found)
    return net.model(found)


def products(model: onnx.ModelProto) -> int:
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
    return sum(matmul_workload(binding.value) is not None for binding in bindings)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("tail", [(), ("Relu",), ("Sigmoid", "Relu")])
def test_numbers(tail: tuple[str, ...], groups: int) -> None:
    assert products(network(*tail, groups=groups)) == 1
    check(network(*tail, groups=groups))


def test_what_follows_may_want_another_layout() -> None:
    assert products(network("GlobalAveragePool")) == 0
    assert products(network(kernel=3)) == 0
