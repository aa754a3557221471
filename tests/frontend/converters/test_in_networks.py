"""Converted operators between convolutions: blocked layouts, folding and fusion around them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_net import Net, check
from onnx_text import check_like_peer, parsed


def _network(net: Net, x: str) -> str:
    """A convolution on both sides."""
    return net.conv(x, 16, 8)


def _start() -> tuple[Net, str]:
    net = Net((1, 3, 16, 14), biases=True)
    return net, net("Relu", net.conv("data", 3, 16, 3))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("factors", [(2, 2), (1.3, 0.6)])
def test_resize(mode: str, factors: tuple[float, float]) -> None:
    net, x = _start()
    resized = net("Resize", x, "", net.constant([1, 1, *factors]), mode=mode)
    check(net.model(_network(net, resized)))


def test_pools() -> None:
    net, x = _start()
    ceiled = {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]}
    x = net("AveragePool", x, kernel_shape=[4, 4], count_include_pad=1, **ceiled)
    x = net.conv(x, 16, 16, 3)
    x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER")
    x = net("LpPool", net.conv(x, 16, 16), kernel_shape=[2, 2])
    check(net.model(_network(net, x)))


def test_places_of_the_largest() -> None:
    """They are places in plain NCHW, whatever layout the convolutions around have."""
    net, x = _start()
    pooled, places = net.several(2, "MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    marked = net("Add", pooled, net("Cast", places, to=onnx.TensorProto.FLOAT))
    check(net.model(_network(net, marked)))


@pytest.mark.parametrize("extent", [(31, 27), (33, 29)])
def test_conv_transpose_with_an_output_shape(extent: tuple[int, int]) -> None:
    net, x = _start()
    weight, bias = net.weight(16, 16, 3, 3), net.constant(np.arange(16) / 16)
    up = net("ConvTranspose", x, weight, bias, strides=[2, 2], output_shape=extent)
    check(net.model(_network(net, net("Relu", net.batch_norm(up, 16)))))


@pytest.mark.parametrize("kind", ["bool", "int64", "uint32", "double", "float16"])
def test_casts_of_maps_are_outputs(kind: str) -> None:
    """Truths are no feature map: they came in the layout of the convolution before."""
    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    text = f"""net (float[1,3,16,14] x) => ({kind}[1,16,16,14] cast, float[1,8,16,14] y)
    {{
        c = Conv<pads = [1, 1, 1, 1]>(x, w)
        r = Relu(c)
        cast = Cast<to = {to}>(r)
        y = Conv(r, v)
    }}"""
    rng = np.random.default_rng(0)
    shapes = {"w": (16, 3, 3, 3), "v": (8, 16, 1, 1)}
    # Whole numbers: what is cut off does not depend on rounding.
    weights = {name: rng.integers(-2, 3, shape).astype("float32") for name, shape in shapes.items()}
    image = rng.integers(-3, 4, (1, 3, 16, 14)).astype("float32")
    check_like_peer(parsed(text, **weights), x=image)
