"""ONNX Runtime's numbers, with a warning where no template takes the arithmetic, else without."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_net import Net, assert_close, reference, run

import tvm_neocpu
from tvm_neocpu import relay


def attention(net: Net) -> str:
    """Rank-3 products: with a constant, and of two results."""
    query, key = (
        net("MatMul", "data", net.weight(24, 32)),
        net("MatMul", "data", net.weight(24, 32)),
    )
    scores = net("MatMul", query, net("Transpose", key, perm=[0, 2, 1]))
    return net("MatMul", net("Softmax", scores, axis=-1), "data")


def computed_weight(net: Net) -> str:
    weight = net("Mul", net.weight(4, 6, 2, 2, 2), net("ReduceMax", "data", keepdims=0))
    return net("ConvTranspose", "data", weight, strides=[2, 2, 2])


Network = tuple[tuple[int, ...], Callable[[Net], str]]

COVERED: dict[str, Network] = {
    "1-D": (
        (1, 8, 99),
        lambda net: net("Relu", net("Conv", "data", net.weight(16, 8, 5), pads=[2, 2])),
    ),
    "3-D": (
        (1, 4, 6, 9, 32),
        lambda net: net("Conv", "data", net.weight(8, 4, 3, 3, 3), net.weight(8), pads=[1] * 6),
    ),
    "3-D transposed": (
        (1, 4, 5, 6, 8),
        lambda net: net("ConvTranspose", "data", net.weight(4, 6, 2, 2, 2), strides=[2, 2, 2]),
    ),
    "attention": ((2, 17, 24), attention),
    "einsum": (
        (2, 16, 24),
        lambda net: net("Einsum", "data", "data", equation="bij,bkj->bik"),
    ),
}
FALLBACKS: dict[str, tuple[Network, str]] = {
    "3-D transposed": (((1, 4, 5, 6, 8), computed_weight), "conv3d_transpose"),
    "einsum": (
        (
            (2, 16, 24),
            lambda net: net("Einsum", "data", "data", "data", equation="bij,bkj,bkj->bik"),
        ),
        "einsum",
    ),
}


def model_of(network: Network) -> onnx.ModelProto:
    shape, build = network
    net = Net(shape)
    model = net.model(build(net))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def check(lib: Any, model: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    assert_close(run(lib, data), reference(model, data))


@pytest.mark.parametrize("name", COVERED)
def test_what_templates_take_is_right_and_warns_of_nothing(name: str) -> None:
    model = model_of(COVERED[name])
    mod, params = relay.frontend.from_onnx(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tvm_neocpu.FallbackWarning)
        lib = relay.build(mod, target="llvm", params=params)
    check(lib, model, COVERED[name][0])


@pytest.mark.parametrize("name", FALLBACKS)
def test_a_fallback_is_reported_and_right(name: str) -> None:
    network, said = FALLBACKS[name]
    model = model_of(network)
    mod, params = relay.frontend.from_onnx(model)
    with pytest.warns(tvm_neocpu.FallbackWarning, match=said) as caught:
        lib = relay.build(mod, target="llvm", params=params)
    assert sum(w.category is tvm_neocpu.FallbackWarning for w in caught) == 1
    check(lib, model, network[0])
