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


def network(*tail: str, kernel: int = 1) -> onnx.ModelProto:
    net = Net((2, 17, 23, 19))
    found = net("Conv", "data", net.weight(33, 17, kernel, kernel), net.weight(33))
    for operator in tail:
        found = net(operator, found)
    return net.model(found)


def products(model: onnx.ModelProto) -> int:
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
    return sum(matmul_workload(binding.value) is not None for binding in bindings)


@pytest.mark.parametrize("tail", [(), ("Relu",), ("Sigmoid", "Relu")])
def test_numbers(tail: tuple[str, ...]) -> None:
    assert products(network(*tail)) == 1
    check(network(*tail))


def test_what_follows_may_want_another_layout() -> None:
    assert products(network("GlobalAveragePool")) == 0
    assert products(network(kernel=3)) == 0
