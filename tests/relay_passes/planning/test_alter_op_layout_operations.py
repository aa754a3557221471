"""AlterOpLayout on what stands between convolutions: it takes their layout, or needs plain NCHW."""

from __future__ import annotations

import numpy as np
import pytest
from relax_net import BIAS, W8, W16, W32, Build, Net, blocks, check, const, weight
from tvm import relax

from tvm_neocpu.topi.dense.geometry import DenseConfig

op = relax.op

DENSE, FLAT = weight(16, 10), weight(16 * 36, 10)
BLOCKED_BIAS = BIAS.reshape(1, 2, 8, 1, 1).transpose(0, 1, 3, 4, 2)


def test_pooling_takes_the_layout_and_keeps_its_attributes() -> None:
    largest = {"pool_size": [3, 2], "strides": [2, 1], "padding": [1, 0, 1, 1], "ceil_mode": True}
    average = {"pool_size": [2, 2], "dilation": [2, 1], "count_include_pad": True}

    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.max_pool2d(net.conv(x, W16), **largest))
        return net(op.nn.adaptive_avg_pool2d(net(op.nn.avg_pool2d(y, **average)), [1, 2]))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.max_pool2d(net.conv(x, W16, 0, 8), layout="NCHW8c", **largest))
        y = net(op.nn.avg_pool2d(y, layout="NCHW8c", **average))
        return net.unpack(net(op.nn.adaptive_avg_pool2d(y, [1, 2], "NCHW8c")), 8)

    check(before, [blocks(0, 8)], expected)


@pytest.mark.parametrize("method", ["linear", "nearest_neighbor"])
def test_resizing_takes_the_layout_and_keeps_its_attributes(method: str) -> None:
    attributes = {
        "roi": (0.0, 0.0, 1.0, 1.0),
        "method": method,
        "coordinate_transformation_mode": "asymmetric",
        "rounding_method": "floor",
        "cubic_alpha": -0.5,
        "cubic_exclude": 1,
        "extrapolation_value": 2.0,
    }

    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.image.resize2d(net.conv(x, W16), (9, 11), **attributes))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 8)
        return net.unpack(net(op.image.resize2d(y, (9, 11), layout="NCHW8c", **attributes)), 8)

    check(before, [blocks(0, 8)], expected)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.nn.pad(net.conv(x, W16), [0, 0, 0, 0, 1, 2, 0, 3], mode, 0.5))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 8)
        y = net(op.nn.pad(y, [0, 0, 0, 0, 1, 2, 0, 3, 0, 0], mode, 0.5))
        return net.unpack(y, 8)

    check(before, [blocks(0, 8)], expected)


def test_constants_of_every_channel_are_blocked_and_single_ones_are_scalars() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.add(net.conv(x, W16), const(BIAS)))
        y = net(op.subtract(const(BIAS[0]), y))
        return net(op.clip(net(op.multiply(y, const(np.full((1, 1, 1), 2)))), 0, 6))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.add(net.conv(x, W16, 0, 8), const(BLOCKED_BIAS)))
        y = net(op.subtract(const(BLOCKED_BIAS), y))
        y = net(op.clip(net(op.multiply(y, relax.const(2.0, "float32"))), 0, 6))
        return net.unpack(y, 8)

    check(before, [blocks(0, 8)], expected)


def test_mean_that_keeps_dimensions() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.mean(net.conv(x, W16), axis=[2, 3], keepdims=True))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.mean(net.conv(x, W16, 0, 8), axis=[2, 3], keepdims=True))
        return net(op.reshape(y, (1, 16, 1, 1)))

    check(before, [blocks(0, 8)], expected)


@pytest.mark.parametrize(
    "squeeze",
    [
        lambda net, x: net(op.mean(x, axis=[3, -2])),
        lambda net, x: net(op.reshape(net(op.mean(x, axis=[2, 3], keepdims=True)), (1, 16))),
    ],
    ids=["no dimensions kept", "reshape"],
)
def test_mean_to_a_dense_layer_moves_nothing(squeeze: Build) -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.matmul(squeeze(net, net.conv(x, W16)), DENSE))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.mean(net.conv(x, W16, 0, 8), axis=[2, 3], keepdims=True))
        return net(op.matmul(net(op.reshape(y, (1, 16))), DENSE))

    check(before, [blocks(0, 8), DenseConfig(16)], expected)


def test_flattening_an_image_needs_plain_nchw() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.matmul(net(op.reshape(net.conv(x, W16), (1, 16 * 36))), FLAT))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.unpack(net.conv(x, W16, 0, 8), 8)
        return net(op.matmul(net(op.reshape(y, (1, 16 * 36))), FLAT))

    check(before, [blocks(0, 8), DenseConfig(16)], expected)


def test_operations_over_channels_stay_in_nchw() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        halves = net(op.split(net(op.nn.softmax(net.conv(x, W32), axis=1)), 2, axis=1))
        return net.conv(net(relax.TupleGetItem(halves, 1)), W8)

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.softmax(net.unpack(net.conv(x, W32, 0, 16), 16), axis=1))
        half = net(relax.TupleGetItem(net(op.split(y, 2, axis=1)), 1))
        return net.unpack(net.conv(half, W8, 0, 8), 8)

    check(before, [blocks(0, 16), blocks(0, 8)], expected)
