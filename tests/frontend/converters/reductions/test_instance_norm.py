"""InstanceNormalization, alone and between convolutions, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_net import Net, check
from onnx_node import check_node, image, node_model, ours

from tvm_neocpu import relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.pipeline import apply_plan, fold
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target


def parameters(channels: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.uniform(0.5, 1.5, channels).astype("float32") for _ in range(2)]


@pytest.mark.parametrize(
    ("shape", "epsilon"),
    [((2, 3, 7, 9), 1e-5), ((1, 5, 40, 33), 1e-2), ((2, 3, 50), 1e-5), ((1, 2, 3, 4, 5), 1e-5)],
)
def test_every_rank(shape: tuple[int, ...], epsilon: float) -> None:
    x = image(*shape)
    check_node(node_model("InstanceNormalization", [x], parameters(shape[1]), epsilon=epsilon), x)


def test_scale_and_bias_that_are_inputs() -> None:
    x, (scale, bias) = image(2, 3, 7, 9), parameters(3)
    check_node(node_model("InstanceNormalization", [x, scale, bias]), x, scale, bias)


def test_a_large_mean_costs_no_digits() -> None:
    """ONNX Runtime subtracts the scaled mean last, which cancels digits."""
    x, (scale, bias) = image(1, 2, 30, 31) + 1000, parameters(2)
    (found,) = ours(node_model("InstanceNormalization", [x], [scale, bias]), [x])
    exact = x.astype("float64")
    exact = (exact - exact.mean((2, 3), keepdims=True)) / np.sqrt(
        exact.var((2, 3), keepdims=True) + 1e-5
    )
    wanted = exact * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-4)


def styled() -> Net:
    """Convolution, norm, ReLU, mirrored border, convolution: a style network's block."""
    net = Net((1, 16, 12, 13))
    x = net.conv("data", 16, 32, 3)
    x = net("InstanceNormalization", x, *map(net.constant, parameters(32)))
    border = net.integers(0, 0, 1, 1, 0, 0, 1, 1)
    net.conv(net("Pad", net("Relu", x), border, mode="reflect"), 32, 16, 3, pads=[0] * 4)
    return net


def test_between_convolutions() -> None:
    net = styled()
    check(net.model(net.nodes[-1].output[0]))


def test_channels_stay_blocked_between_convolutions() -> None:
    net, target = styled(), parse_target("llvm -mcpu=skylake-avx512")
    mod, _ = relay.frontend.from_onnx(net.model(net.nodes[-1].output[0]))
    folded = fold(mod, target.cpu)
    graph = ExtractConvGraph(target.cpu)(folded)
    text = apply_plan(folded, choose_plan(graph, target.cpu), target.cpu).script()
    assert text.count("R.layout_transform(") == 2, "at the network's input and output"
