"""1x1 convolutions of upsampled maps: before these grow, where that is less work; right numbers."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu
SIDE = 8


class Pyramid(Net):
    """A network of two images that makes maps of half the size, and larger ones of these."""

    def smaller(self, x: str, inputs: int, outputs: int) -> str:
        return self("Relu", self.conv(x, inputs, outputs, 3, strides=[2, 2]))

    def larger(self, x: str, mode: str = "nearest", **attributes: object) -> str:
        scales = self.constant([1, 1, 2, 2])
        return self("Resize", x, "", scales, mode=mode, **attributes)


def network(channels: int = 16) -> tuple[Pyramid, str]:
    net = Pyramid((2, channels, SIDE, SIDE), biases=True)
    return net, net("Relu", net.conv("data", channels, channels, 3))


def resized(model: onnx.ModelProto) -> list[int]:
    """The channels of every map that a resize makes."""
    mod = fold(relay.frontend.from_onnx(model)[0], CPU)
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [static_shape(v)[1] for v in values if op_name(v) == "relax.image.resize2d"]


MODES = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
]


@pytest.mark.parametrize("attributes", MODES)
def test_a_map_grows_behind_its_convolution(attributes: dict[str, str]) -> None:
    net, image = network()
    large = net.larger(net.smaller(image, 16, 64), **attributes)
    model = net.model(net("Relu", net.conv(large, 64, 8)))
    assert resized(model) == [8]
    check(model)


@pytest.mark.parametrize("attributes", MODES)
def test_yolos_neck_convolves_the_parts_of_its_concat(attributes: dict[str, str]) -> None:
    net, image = network()
    large = net.larger(net.smaller(image, 16, 64), **attributes)
    joined = net("Concat", image, large, image, axis=1)
    first, second = (net("Relu", net.conv(joined, 96, 8)) for _ in range(2))
    model = net.model(net("Concat", first, second, axis=1))
    assert resized(model) == [8, 8]
    check(model)


def test_segformers_head_is_no_convolution_of_its_concat() -> None:
    """Its layers before the resizes fold into those after: 16 -> 64 -> 8 channels are 16 -> 8."""
    net, image = network()
    small = net.smaller(image, 16, 16)
    smallest = net.smaller(small, 16, 16)
    parts = [net.conv(image, 16, 64)]
    parts.append(net.larger(net.conv(small, 16, 64), mode="linear"))
    parts.append(net.larger(net.larger(net.conv(smallest, 16, 64), "linear"), "linear"))
    joined = net("Concat", *parts, axis=1)
    model = net.model(net("Relu", net.batch_norm(net.conv(joined, 192, 8), 8)))
    assert resized(model) == [8, 8, 8]
    check(model)


def spread(net: Pyramid, large: str) -> str:
    """A kernel of nine taps mixes pixels, as the resize does."""
    return net.conv(large, 64, 8, 3)


def read_beside(net: Pyramid, large: str) -> str:
    """Something else reads the large map, which has to be there."""
    return net("Concat", net.conv(large, 64, 8), net("Sigmoid", large), axis=1)


def activated(net: Pyramid, large: str) -> str:
    """A sigmoid is not linear."""
    return net.conv(net("Sigmoid", large), 64, 8)


@pytest.mark.parametrize("tail", [spread, read_beside, activated])
def test_what_is_no_gain_stays(tail: Callable[[Pyramid, str], str]) -> None:
    net, image = network()
    large = net.larger(net.smaller(image, 16, 64), mode="linear")
    model = net.model(tail(net, large))
    assert resized(model) == [64]
    check(model)


def test_a_map_that_would_have_many_channels_grows_first() -> None:
    net, image = network()
    large = net.larger(net.smaller(image, 16, 16), mode="linear")
    model = net.model(net.conv(large, 16, 512))
    assert resized(model) == [16]
    check(model)


def test_a_map_that_shrinks_does_so_first() -> None:
    net, image = network(64)
    small = net("Resize", image, "", net.constant([1, 1, 0.5, 0.5]), mode="linear")
    model = net.model(net.conv(small, 64, 8))
    assert resized(model) == [64]
    check(model)
