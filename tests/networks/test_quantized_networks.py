"""Networks that ONNX Runtime's quantiser wrote: integer outputs against ONNX Runtime's.

ONNX Runtime runs them without optimisations (:mod:`quantized_onnx` says why). Differences are ties
of rounding: at most 1 element in 1000, by 1. Windows of averages are odd here: the means of four
codes in their own scale are ties by the dozen, which the last bit of a float decides.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_text import assert_like, ours, parsed
from quantized_onnx import (
    QOPERATOR,
    check_quantized,
    dynamically_quantized,
    expected,
    images,
    network,
    quantized,
)

# What each network is about, its graph and the shapes of its weights.
NETWORKS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "residual": (
        """g (float[1,3,20,20] x) => (float[1,16,10,10] y) {
            a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w0, b0)
            b = Relu(a)
            c = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(b)
            d = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(c, w1, b1)
            e = Add(d, c)
            y = Relu(e)
        }""",
        {"w0": (16, 3, 3, 3), "b0": (16,), "w1": (16, 16, 3, 3), "b1": (16,)},
    ),
    "two convolutions that are added": (
        """g (float[1,8,12,12] x) => (float[1,16,6,6] y) {
            a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(x, w0, b0)
            b = Conv<kernel_shape=[1,1], strides=[2,2]>(x, w1)
            y = Add(a, b)
        }""",
        {"w0": (16, 8, 3, 3), "b0": (16,), "w1": (16, 8, 1, 1)},
    ),
    "inverted residual": (
        """g (float[1,8,14,14] x) => (float[1,8,14,14] y) {
            a = Conv<kernel_shape=[1,1]>(x, w0, b0)
            b = Relu(a)
            c = Conv<kernel_shape=[3,3], pads=[1,1,1,1], group=24>(b, w1, b1)
            d = HardSwish(c)
            e = Conv<kernel_shape=[1,1]>(d, w2)
            y = Add(e, x)
        }""",
        {"w0": (24, 8, 1, 1), "b0": (24,), "w1": (24, 1, 3, 3), "b1": (24,), "w2": (8, 24, 1, 1)},
    ),
    "groups, asymmetric padding, concat": (
        """g (float[1,8,11,13] x) => (float[1,20,11,13] y) {
            a = Conv<kernel_shape=[3,3], pads=[0,2,2,0], group=2>(x, w0, b0)
            b = LeakyRelu(a)
            c = Conv<kernel_shape=[1,3], pads=[0,1,0,1]>(x, w1)
            d = Sigmoid(c)
            y = Concat<axis=1>(b, d)
        }""",
        {"w0": (12, 4, 3, 3), "b0": (12,), "w1": (8, 8, 1, 3)},
    ),
    "volumes": (
        """g (float[2,3,5,9,8] x) => (float[2,16,3,9,8] y) {
            a = Conv<kernel_shape=[3,3,3], pads=[1,1,1,1,1,1]>(x, w0, b0)
            b = Relu(a)
            c = Conv<kernel_shape=[3,1,1], pads=[2,0,0,2,0,0], dilations=[2,1,1]>(b, w1)
            d = Add(c, b)
            e = Conv<kernel_shape=[2,1,3], pads=[0,0,1,0,0,1], group=4>(d, w2)
            f = Relu(e)
            y = Conv<kernel_shape=[3,3,3], pads=[2,1,1,0,1,1], strides=[2,1,1]>(f, w3)
        }""",
        {
            "w0": (16, 3, 3, 3, 3),
            "b0": (16,),
            "w1": (16, 16, 3, 1, 1),
            "w2": (16, 4, 2, 1, 3),
            "w3": (16, 16, 3, 3, 3),
        },
    ),
    "pools and dense layers": (
        """g (float[2,4,12,12] x) => (float[2,10] y) {
            a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], dilations=[1,1]>(x, w0, b0)
            b = AveragePool<kernel_shape=[3,3], strides=[3,3]>(a)
            c = GlobalAveragePool(b)
            d = Flatten(c)
            e = Gemm<transB=1>(d, w1, b1)
            f = Relu(e)
            y = MatMul(f, w2)
        }""",
        {"w0": (32, 4, 3, 3), "b0": (32,), "w1": (24, 32), "b1": (24,), "w2": (24, 10)},
    ),
    "moves": (
        """g (float[1,8,6,6] x) => (float[1,16,12,12] y) <float[4] scales = {1, 1, 2, 2},
            int64[5] apart = {1, 2, 4, 6, 6}, int64[4] together = {1, 8, 6, 6}> {
            a = Conv<kernel_shape=[1,1]>(x, w0)
            s = Reshape(a, apart)
            t = Transpose<perm=[0,2,1,3,4]>(s)
            u = Reshape(t, together)
            b = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(u, w1)
            c, d = Split<axis=1, num_outputs=2>(b)
            e = Concat<axis=1>(d, c)
            y = Resize<mode="nearest">(e, , scales)
        }""",
        {"w0": (8, 8, 1, 1), "w1": (16, 8, 3, 3)},
    ),
    "functions of codes": (
        """g (float[1,16,13,15] x) => (float[1,40,13,15] y) {
            a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w0, b0)
            s = Sigmoid(a)
            b = Mul(a, s)
            c = Conv<kernel_shape=[3,3], pads=[1,1,1,1], group=32>(b, w1, b1)
            t = Tanh(c)
            d = Add(t, b)
            e = Conv<kernel_shape=[1,1]>(d, w2)
            f = Elu(e)
            y = Concat<axis=1>(f, b)
        }""",
        {
            "w0": (32, 16, 3, 3),
            "b0": (32,),
            "w1": (32, 1, 3, 3),
            "b1": (32,),
            "w2": (8, 32, 1, 1),
        },
    ),
    "a function of channels that are filled up": (
        """g (float[1,16,9,9] x) => (float[1,32,9,9] y) {
            a = Conv<kernel_shape=[1,1]>(x, w0, b0)
            s = Sigmoid(a)
            b = Mul(a, s)
            y = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(b, w1)
        }""",
        {"w0": (20, 16, 1, 1), "b0": (20,), "w1": (32, 20, 3, 3)},
    ),
    "squeeze and excite": (
        """g (float[1,16,9,9] x) => (float[1,16,9,9] y) {
            a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], group=16>(x, w0, b0)
            p = GlobalAveragePool(a)
            q = Conv<kernel_shape=[1,1]>(p, w1, b1)
            r = HardSigmoid(q)
            y = Mul(a, r)
        }""",
        {"w0": (16, 1, 3, 3), "b0": (16,), "w1": (16, 16, 1, 1), "b1": (16,)},
    ),
}


def build(name: str) -> onnx.ModelProto:
    text, weights = NETWORKS[name]
    model = network(text, **weights)
    if name == "moves":
        model.opset_import[0].version = 18
    return model


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_uint8_activations_and_int8_weights(name: str, per_channel: bool) -> None:
    check_quantized(quantized(build(name), per_channel=per_channel))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_form_of_operators(name: str) -> None:
    check_quantized(quantized(build(name), form=QOPERATOR, per_channel=name == "residual"))


@pytest.mark.parametrize("types", ["s8s8", "u8u8"])
@pytest.mark.parametrize("name", ["residual", "pools and dense layers"])
def test_other_types(name: str, types: str) -> None:
    check_quantized(quantized(build(name), types))


def test_a_network_that_quantises_its_activations_as_it_runs() -> None:
    text = """g (float[2,8,9,7] x) => (float[2,6] y) {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,1]>(x, w0, b0)
        b = Relu(a)
        c = GlobalAveragePool(b)
        d = Flatten(c)
        y = MatMul(d, w1)
    }"""
    model = dynamically_quantized(network(text, w0=(16, 8, 3, 3), b0=(16,), w1=(16, 6)))
    assert {"ConvInteger", "MatMulInteger"} <= {node.op_type for node in model.graph.node}
    inputs = images(model, seed=9)
    assert_like(ours(model, inputs), expected(model, inputs))


def test_codes_that_are_read_from_another_zero_point() -> None:
    """A sum took the codes less the zero point that they were made with: 8 steps too few."""
    text = """g (float[1,8,6,6] x) => (uint8[1,8,6,6] y) {
        s = Constant<value_float=0.0625>()
        z = Constant<value = uint8 {128}>()
        other = Constant<value = uint8 {120}>()
        of_weight = Constant<value_float=0.0078125>()
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        w = DequantizeLinear(w0, of_weight)
        made = Conv<pads=[1,1,1,1]>(d, w)
        coded = QuantizeLinear(made, s, z)
        read = DequantizeLinear(coded, s, other)
        total = Add(read, d)
        y = QuantizeLinear(total, s, z)
    }"""
    weight = np.random.default_rng(0).integers(-60, 60, (8, 8, 3, 3)).astype("int8")
    model = parsed(text, w0=weight)
    inputs = images(model, seed=1)
    # Scales are powers of two: nothing is rounded before the codes.
    np.testing.assert_array_equal(ours(model, inputs)[0], expected(model, inputs)[0])
