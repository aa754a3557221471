"""Whole networks compiled for ARM, every kernel executed in an emulator, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_net import Net, check
from onnx_text import assert_like
from quantized_onnx import expected, images, network, quantized

pytest.importorskip("unicorn", reason="Unicorn, the emulator, is not installed")

from emulation.kernels import arm
from emulation.network import run_network
from hypothesis import HealthCheck, Phase, given, settings
from random_layers import CONVOLUTIONS, FEED_FORWARD, written
from random_onnx import Sketch, sketches

from tvm_neocpu.contrib import model_zoo

A72 = arm("cortex-a72")


def check_emulated(model: onnx.ModelProto) -> None:
    name = model.graph.input[0].name
    check(model, lambda data: run_network(model, {name: data}, A72)[0])


def mobile_block() -> onnx.ModelProto:
    """Expand, depthwise, squeeze-excite, project, residual; then a head."""
    net = Net((1, 16, 7, 9))
    x = net("HardSwish", net.batch_norm(net.conv("data", 16, 48), 48))
    x = net("Clip", net.conv(x, 48, 48, 3, 48), net.constant(0), net.constant(6))
    gate = net("Relu", net.conv(net("GlobalAveragePool", x), 48, 12))
    x = net("Mul", x, net("HardSigmoid", net.conv(gate, 12, 48)))
    x = net("Add", net.conv(x, 48, 16), "data")
    return net.model(net("Softmax", net("Flatten", net("MaxPool", x, kernel_shape=[2, 2]))))


def sequence() -> onnx.ModelProto:
    """Layer norm, attention's products and softmax, GELU's erf, upsampling, averages."""
    net = Net((1, 12, 6, 10))
    flat = net("Reshape", "data", net.integers(1, 12, 60))
    scale, shift = net.constant(np.linspace(0.5, 2, 60)), net.constant(np.linspace(-1, 1, 60))
    x = net("LayerNormalization", flat, scale, shift)
    scores = net("Softmax", net("MatMul", x, net("Transpose", x, perm=[0, 2, 1])))
    x = net("Add", net("MatMul", scores, x), flat)
    x = net("Mul", x, net("Erf", net("Mul", x, net.constant(0.7))))
    x = net("Reshape", x, net.integers(1, 12, 6, 10))
    scales = net.constant([1, 1, 2, 2])
    x = net("Resize", x, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    x = net("AveragePool", x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    return net.model(net("Tanh", net("Exp", net("Neg", net("Abs", x)))))


def test_codes_behind_a_convolution_are_looked_up() -> None:
    text = """g (float[1,8,7,9] x) => (float[1,16,7,9] y) {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w0, b0)
        s = Sigmoid(a)
        y = Mul(a, s)
    }"""
    model = quantized(network(text, w0=(16, 8, 3, 3), b0=(16,)))
    inputs = images(model, seed=3)
    (found,) = run_network(model, inputs, A72)
    assert_like([found], expected(model, inputs))


def test_a_mobile_block() -> None:
    check_emulated(mobile_block())


def test_what_no_template_computes() -> None:
    check_emulated(sequence())


@pytest.mark.slow
def test_lenet() -> None:
    check_emulated(model_zoo.build("lenet"))


@pytest.mark.slow
@settings(max_examples=30, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(sketch=sketches((*FEED_FORWARD, *CONVOLUTIONS)))
def test_random_networks(sketch: Sketch) -> None:
    check_emulated(written(sketch))
