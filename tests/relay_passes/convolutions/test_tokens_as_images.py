"""Dense layers beside images: moves of few channels, and right numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu
ROWS, COLUMNS = 6, 5


class Tokens(Net):
    """A network that goes to tokens and back, of two images."""

    def to_tokens(self, x: str, channels: int, rank: int = 3) -> str:
        if rank == 4:
            return self("Transpose", x, perm=[0, 2, 3, 1])
        flat = self("Reshape", x, self.integers(2, channels, ROWS * COLUMNS))
        return self("Transpose", flat, perm=[0, 2, 1])

    def to_image(self, t: str, channels: int, rank: int = 3) -> str:
        if rank == 4:
            return self("Transpose", t, perm=[0, 3, 1, 2])
        moved = self("Transpose", t, perm=[0, 2, 1])
        return self("Reshape", moved, self.integers(2, channels, ROWS, COLUMNS))

    def dense(self, t: str, inputs: int, outputs: int) -> str:
        product = self("MatMul", t, self.constant(self.rng.normal(size=(inputs, outputs)) / 8))
        return self("Add", product, self.weight(outputs))

    def gelu(self, t: str) -> str:
        grown = self("Erf", self("Mul", t, self.constant(0.7)))
        return self("Mul", t, self("Add", grown, self.constant(1.0)))

    def norm(self, t: str, channels: int) -> str:
        return self("LayerNormalization", t, self.weight(channels), self.weight(channels), axis=-1)


def network(channels: int) -> tuple[Tokens, str]:
    net = Tokens((2, channels, ROWS, COLUMNS))
    return net, net.conv("data", channels, channels, 3)


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often each operator is there, and ``moved``: the most channels of a transpose."""
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    moved = [static_shape(value) for value in values if op_name(value) == "relax.permute_dims"]
    found = Counter(op_name(value).rpartition(".")[2] for value in values)
    tokens = [shape[1] if len(shape) == 3 and shape[2] == 30 else shape[-1] for shape in moved]
    return found + Counter(moved=max(tokens, default=0))


def feed_forward(rank: int) -> onnx.ModelProto:
    """PVT-v2's and SegFormer's: 16 -> 64 channels, a depthwise convolution, GELU, 64 -> 16."""
    net, image = network(16)
    tokens = net.norm(net.to_tokens(image, 16, rank), 16)
    wide = net.to_image(net.dense(tokens, 16, 64), 64, rank)
    wide = net.conv(wide, 64, 64, 3, group=64)
    narrow = net.dense(net.gelu(net.to_tokens(wide, 64, rank)), 64, 16)
    return net.model(net.to_image(net("Add", tokens, narrow), 16, rank))


@pytest.mark.parametrize("rank", [3, 4])
def test_a_feed_forward_layer_moves_its_narrow_ends(rank: int) -> None:
    model = feed_forward(rank)
    found = operators(model)
    assert found["matmul"] == 0 and found["conv2d"] == 4
    assert found["moved"] == 16
    check(model)


def test_the_moves_of_what_begins_and_ends_as_an_image_are_gone() -> None:
    net, image = network(16)
    tokens = net.dense(net("Relu", net.to_tokens(image, 16)), 16, 16)
    model = net.model(net("Relu", net.to_image(net("Mul", tokens, net.weight(16)), 16)))
    assert operators(model)["permute_dims"] == 0
    check(model)


def test_tokens_of_four_axes_may_become_three() -> None:
    net, image = network(16)
    flat = net("Reshape", net.to_tokens(image, 16, rank=4), net.integers(2, 30, 16))
    model = net.model(net.to_image(net.dense(flat, 16, 8), 8))
    assert operators(model)["permute_dims"] == 0
    check(model)


def widened(net: Tokens, image: str) -> str:
    """A dense layer that widens what a norm then reads: nothing narrower could move."""
    wide = net.norm(net.dense(net.to_tokens(image, 16), 16, 32), 32)
    return net.to_image(wide, 32)


def read_twice(net: Tokens, image: str) -> str:
    """Tokens that a norm reads beside the dense layer have to be there."""
    tokens = net.to_tokens(image, 16)
    return net.to_image(net("Add", net.dense(tokens, 16, 16), net.norm(tokens, 16)), 16)


def placed(net: Tokens, image: str) -> str:
    """A number for each token is none for each channel."""
    placed = net("Add", net.to_tokens(image, 16), net.weight(1, ROWS * COLUMNS, 1))
    return net.to_image(net.dense(net.norm(placed, 16), 16, 16), 16)


def few(net: Tokens, image: str) -> str:
    """Four channels fill no vector."""
    return net.to_image(net.norm(net.dense(net.to_tokens(image, 16), 16, 4), 4), 4)


def turned(net: Tokens, image: str) -> str:
    """An image whose sides are another's is none of the same tokens."""
    narrow = net("Transpose", net.dense(net.to_tokens(image, 16), 16, 8), perm=[0, 2, 1])
    return net("Reshape", narrow, net.integers(2, 8, COLUMNS, ROWS))


@pytest.mark.parametrize("kind", [widened, read_twice, placed, few])
def test_what_gains_nothing_stays(kind: Callable[[Tokens, str], str]) -> None:
    net, image = network(16)
    model = net.model(kind(net, image))
    assert operators(model)["matmul"] == 1
    check(model)


def test_a_wide_image_of_other_sides_is_moved_where_it_is_narrow() -> None:
    """8 -> 32 channels, and rows where columns were: the first image is none of the second's."""
    net, image = network(8)
    wide = net("Transpose", net.dense(net.to_tokens(image, 8), 8, 32), perm=[0, 2, 1])
    model = net.model(net("Reshape", wide, net.integers(2, 32, COLUMNS, ROWS)))
    assert operators(model)["moved"] == 8
    check(model)


def test_an_image_of_other_sides_is_moved() -> None:
    net, image = network(16)
    model = net.model(turned(net, image))
    assert operators(model)["permute_dims"] == 2
    check(model)
