"""The time of a build grows with the network, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx_net import Net, check

from tvm_neocpu import relay

# CPU seconds.
MAX_SECONDS = 180


def chain(count: int) -> onnx.ModelProto:
    net = Net((1, 16, 14, 14), biases=True)
    x = "data"
    for place in range(count):
        x = net("Relu", net.conv(x, 16, 16, 3 if place % 2 else 1))
    return net.model(x)


def residual(count: int) -> onnx.ModelProto:
    net = Net((1, 16, 14, 14), biases=True)
    x = "data"
    for _ in range(count // 2):
        inner = net("Relu", net.conv(x, 16, 16, 3))
        # Half of each branch: the sum of a thousand would overflow.
        branch = net("Mul", net.conv(inner, 16, 16, 3), net.constant(0.25))
        x = net("Relu", net("Add", net("Mul", x, net.constant(0.75)), branch))
    return net.model(x)


def dense(count: int) -> onnx.ModelProto:
    """DenseNet's blocks of 16: each layer reads all before it."""
    net = Net((1, 16, 14, 14), biases=True)
    x = "data"
    for _ in range(count // 17):
        features, width = [x], 16
        for _ in range(16):
            whole = net("Concat", *features, axis=1) if len(features) > 1 else features[0]
            features.append(net("Relu", net.conv(whole, width, 16, 3)))
            width += 16
        x = net("Relu", net.conv(net("Concat", *features, axis=1), width, 16))
    return net.model(x)


NETWORKS = {"chain": chain, "residual": residual, "dense": dense}


def build_seconds(model: onnx.ModelProto) -> float:
    start = time.process_time()
    mod, params = relay.frontend.from_onnx(model)
    relay.build(mod, target="llvm", params=params)
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_thousand_convolutions_build_in_linear_time(name: str) -> None:
    make: Callable[[int], onnx.ModelProto] = NETWORKS[name]
    build_seconds(make(34))  # what is imported and remembered once
    fewer, more = (build_seconds(make(count)) for count in (255, 1020))
    assert more < MAX_SECONDS
    assert more < 4 * 1.5 * fewer


@pytest.mark.parametrize("name", ["chain", "residual"])
def test_deep_networks_compute_onnx_runtimes_numbers(name: str) -> None:
    with np.errstate(all="ignore"):
        check(NETWORKS[name](34))
