"""QDQ files as PyTorch's export and NNCF write them compute in integers, as in ONNX Runtime.

Small graphs by the rules of those tools; neither is needed here.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_text import ours, parsed
from quantized_onnx import assert_equal_but_for_ties, expected, images

from tvm_neocpu import pipeline, relay
from tvm_neocpu.core.types import INTEGER_PRODUCTS
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target

CPU = parse_target("llvm").cpu
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32")


def scales(channels: int) -> np.ndarray:
    return (RNG.random(channels) * 0.01 + 0.005).astype("float32")


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape).astype("int8")


SCALES = {
    "sx": np.float32(0.02),
    "sy": np.float32(0.03),
    "sz": np.float32(0.05),
    "zx": np.uint8(128),
    "zy": np.uint8(0),
    "zz": np.uint8(77),
}

# Fake quantisation of quantisation-aware training: weights and biases are floats in the file,
# weights with their Q, and activations of 7 bits (PyTorch's default on x86) are clipped codes.
FAKE = """g (float[1,8,9,10] x) => (uint8[1,12,9,10] y) {
    qx = QuantizeLinear(x, sx, zx)
    cx = Clip(qx, lo, hi)
    dx = DequantizeLinear(cx, sx, zx)
    qw = QuantizeLinear<axis=0>(w, sw, zw)
    dw = DequantizeLinear<axis=0>(qw, sw, zw)
    a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(dx, dw, b)
    r = Relu(a)
    qy = QuantizeLinear(r, sy, zy)
    y = Clip(qy, lo, hi)
}"""

# PyTorch's converted modules: biases are divided by their scale and cast, while the file is loaded.
CONVERTED = """g (float[1,8,9,10] x) => (uint8[1,12,5,5] y) {
    qx = QuantizeLinear(x, sx, zx)
    dx = DequantizeLinear(qx, sx, zx)
    dw = DequantizeLinear<axis=0>(w, sw, zw)
    sb = Mul(sw, sx)
    fb = Div(b, sb)
    qb = Cast<to=6>(fb)
    db = DequantizeLinear<axis=0>(qb, sb, zb)
    a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(dx, dw, db)
    r = Relu(a)
    qr = QuantizeLinear(r, sy, zy)
    dr = DequantizeLinear(qr, sy, zy)
    p = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(dr)
    qp = QuantizeLinear(p, sy, zy)
    dp = DequantizeLinear(qp, sy, zy)
    dv = DequantizeLinear<axis=0>(v, sv, zv)
    c = Conv<kernel_shape=[1,1]>(dp, dv)
    qc = QuantizeLinear(c, sz, zz)
    dc = DequantizeLinear(qc, sz, zz)
    s = Add(dc, dp)
    y = QuantizeLinear(s, sy, zy)
}"""

# NNCF: symmetric int8 activations, scales of one element, biases in floats, Q and DQ around
# concats and resizing.
NNCF = """g (float[1,8,6,5] x) => (int8[1,20,12,10] y) {
    qx = QuantizeLinear(x, sx, zx)
    dx = DequantizeLinear(qx, sx, zx)
    dw = DequantizeLinear<axis=0>(w, sw, zw)
    a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(dx, dw, b)
    r = Relu(a)
    qr = QuantizeLinear(r, sy, zx)
    dr = DequantizeLinear(qr, sy, zx)
    j = Concat<axis=1>(dr, dx)
    qj = QuantizeLinear(j, sy, zx)
    dj = DequantizeLinear(qj, sy, zx)
    z = Resize<mode="nearest",
               coordinate_transformation_mode="asymmetric",
               nearest_mode="floor">(dj, , two)
    qz = QuantizeLinear(z, sy, zx)
    dz = DequantizeLinear(qz, sy, zx)
    dv = DequantizeLinear(v, sv, zv)
    c = Conv<kernel_shape=[3,3], pads=[1,1,1,1], group=2>(dz, dv)
    y = QuantizeLinear(c, sz, zx)
}"""

# Opset 21: no zero points at all; the type of the codes is an attribute.
WITHOUT_ZEROS = """g (float[1,8,7,7] x) => (int8[1,12,7,7] y) {
    qx = QuantizeLinear<output_dtype=3>(x, sx)
    dx = DequantizeLinear(qx, sx)
    dw = DequantizeLinear<axis=0>(w, sw)
    db = DequantizeLinear<axis=0>(b, sb)
    a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(dx, dw, db)
    y = QuantizeLinear<output_dtype=3>(a, sy)
}"""

# Linear layers: weights (O, K) with a scale for each row, a global pool in front.
LINEAR = """g (float[1,8,7,7] x) => (uint8[1,10] y) {
    qx = QuantizeLinear(x, sx, zx)
    dx = DequantizeLinear(qx, sx, zx)
    p = GlobalAveragePool(dx)
    qp = QuantizeLinear(p, sy, zx)
    dp = DequantizeLinear(qp, sy, zx)
    f = Flatten(dp)
    dw = DequantizeLinear<axis=0>(w, sw, zw)
    a = Gemm<transB=1>(f, dw, b)
    y = QuantizeLinear(a, sz, zz)
}"""

# Swish in floats between codes, as mobile networks have it.
SWISH = """g (float[1,8,7,7] x) => (uint8[1,8,7,7] y) {
    qx = QuantizeLinear(x, sx, zx)
    dx = DequantizeLinear(qx, sx, zx)
    dw = DequantizeLinear<axis=0>(w, sw, zw)
    a = Conv<kernel_shape=[3,3], pads=[1,1,1,1], group=8>(dx, dw, b)
    qa = QuantizeLinear(a, sz, zz)
    da = DequantizeLinear(qa, sz, zz)
    g = Sigmoid(da)
    qg = QuantizeLinear(g, sg, zy)
    dg = DequantizeLinear(qg, sg, zy)
    m = Mul(da, dg)
    y = QuantizeLinear(m, sy, zx)
}"""


def zeros(channels: int) -> np.ndarray:
    return np.zeros(channels, "int8")


def one(value: float) -> np.ndarray:
    return np.array([value], "float32")


def layer(out: int, inputs: int, *kernel: int, name: str = "w") -> dict[str, np.ndarray]:
    """int8 weights, a scale for each output channel, zero points."""
    parts = {name: int8(out, inputs, *kernel), f"s{name}": scales(out), f"z{name}": zeros(out)}
    return parts


FILES = {
    "fake quantisation": (
        FAKE,
        13,
        SCALES
        | {"zx": np.uint8(64), "lo": np.uint8(0), "hi": np.uint8(127)}
        | {"w": floats(12, 8, 3, 3), "sw": scales(12), "zw": zeros(12), "b": floats(12)},
    ),
    "converted modules": (
        CONVERTED,
        13,
        SCALES
        | layer(12, 8, 3, 3)
        | layer(12, 12, 1, 1, name="v")
        | {"b": floats(12), "zb": np.zeros(12, "int32")},
    ),
    "nncf": (
        NNCF,
        13,
        layer(12, 8, 3, 3)
        | {"v": int8(20, 10, 3, 3), "sv": one(0.01), "zv": zeros(1)}
        | {"sx": one(0.02), "sy": one(0.03), "sz": one(0.3), "zx": zeros(1), "b": floats(12)}
        | {"two": np.array([1, 1, 2, 2], "float32")},
    ),
    "without zero points": (
        WITHOUT_ZEROS,
        21,
        {"w": int8(12, 8, 3, 3), "sw": scales(12), "b": np.arange(12, dtype="int32") * 100}
        | {"sb": scales(12), "sx": np.float32(0.02), "sy": np.float32(0.1)},
    ),
    "linear": (LINEAR, 13, SCALES | layer(10, 8) | {"b": floats(10), "sz": np.float32(0.02)}),
    "swish": (
        SWISH,
        13,
        SCALES | layer(8, 1, 3, 3) | {"b": floats(8), "sg": np.float32(1 / 255)},
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_integers_as_onnx_runtime_has_them(name: str) -> None:
    text, opset, constants = FILES[name]
    model = parsed(text, opset, **constants)
    onnx.checker.check_model(model)
    inputs = images(model, seed=9)
    for mine, theirs in zip(ours(model, inputs), expected(model, inputs), strict=True):
        assert_equal_but_for_ties(mine, theirs)
        assert len(np.unique(theirs)) >= 10, "a network whose outputs say something"


@pytest.mark.parametrize("name", FILES)
def test_all_its_layers_compute_in_integers(name: str) -> None:
    text, opset, constants = FILES[name]
    model = parsed(text, opset, **constants)
    mod, _ = relay.frontend.from_onnx(model)
    graph = ExtractConvGraph(CPU)(pipeline.fold(mod, CPU))
    layers = [node.workload for node in graph.convs if node.workload is not None]
    assert layers and all(workload.types in INTEGER_PRODUCTS for workload in layers)
