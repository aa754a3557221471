"""1x1 convolutions of plain images: products where they pay, and right numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_net import Net, check
from onnx_text import check_like_peer, parsed

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.convolutions.plain_products import pays
from tvm_neocpu.relay_passes.operators.new.batch_matmul import matmul_workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu


@pytest.mark.parametrize(
    ("channels", "size", "filters", "groups", "product"),
    [
        (17, 57, 33, 1, True),  # 33 channels fill no block
        (17, 57, 5, 1, False),  # nor do five fill a vector
        (32, 112, 16, 1, True),
        (64, 56, 256, 1, True),
        (240, 28, 60, 3, True),
        (240, 28, 96, 3, True),
        (240, 28, 12, 3, False),
        (256, 14, 1024, 1, False),  # as fast
        (2048, 7, 512, 1, False),  # 49 pixels fill three of the four vectors that they take
    ],
)
def test_products_are_taken_where_they_are_faster(
    channels: int, size: int, filters: int, groups: int, product: bool
) -> None:
    conv = ConvWorkload(1, channels, size, size, filters, (1, 1), groups=groups)
    assert pays(conv, CPU) == product


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize(("channels", "filters"), [(48, 1152), (1152, 48)])
def test_a_lone_pixel_stays_with_its_channels(channels: int, filters: int, cores: int) -> None:
    conv = ConvWorkload(1, channels, 1, 1, filters, (1, 1))
    assert not pays(conv, CPU.with_cores(cores))


def network(*tail: str, kernel: int = 1, groups: int = 1, of_a_group: int = 33) -> onnx.ModelProto:
    net = Net((2, 17 * groups, 23, 19))
    filters = of_a_group * groups
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


@pytest.mark.parametrize(("groups", "of_a_group"), [(1, 33), (3, 33), (1, 32)])
@pytest.mark.parametrize("tail", [(), ("Relu",), ("Sigmoid", "Relu")])
def test_numbers(tail: tuple[str, ...], groups: int, of_a_group: int) -> None:
    model = network(*tail, groups=groups, of_a_group=of_a_group)
    assert products(model) == 1
    check(model)


def test_what_follows_may_want_another_layout() -> None:
    assert products(network("GlobalAveragePool")) == 0
    assert products(network(kernel=3)) == 0


@pytest.mark.parametrize("reader", ["Relu(made)", "Add(made, image)", "Neg(made)"])
def test_a_result_that_a_branch_reads_may_be_read_beside_it(reader: str) -> None:
    """The reader took rows of pixels for an image: the build ended in NumPy's words."""
    text = f"""g (float[2,17,23,19] data) => (float[] y, float[] z) {{
        made = Conv(data, w)
        y = {reader}
        mean = ReduceMean<keepdims = 0>(y)
        above = Greater(mean, zero)
        z = If (above) <
            then_branch = one () => (float[2,33,23,19] a) {{ a = Sigmoid(made) }},
            else_branch = other () => (float[2,33,23,19] b) {{ b = Tanh(made) }}
        >
    }}"""
    rng = np.random.default_rng(0)
    shapes = {"w": (33, 17, 1, 1), "image": (33, 23, 19), "zero": ()}
    weights = {name: rng.standard_normal(shape, "float32") for name, shape in shapes.items()}
    model = parsed(text, **{name: np.asarray(value) for name, value in weights.items()})
    assert products(model) == 1
    check_like_peer(model, data=rng.standard_normal((2, 17, 23, 19), "float32"))
