"""Operators over codes: ONNX's own of integers, and ONNX Runtime's.

Weights have 7 bits: on some CPUs ONNX Runtime's sums of 8 bits saturate. What ONNX Runtime rounds
on its way has a scale that no tie follows from, and no later layer reads it.
"""

from __future__ import annotations

import math

import numpy as np
from layer_kinds.layer import factors
from layer_kinds.windows import window
from onnx import TensorProto
from random_onnx import Choices, Skip
from random_quantized import Codes, Grid, QuantizedNet, Weight, Write, weight

from quantized_kinds.between_codes import CHANNELS

BITS = 7


def qlinear_conv(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels, *image = net.shape_of(x)[1:]
    outputs, kernel = pick(*CHANNELS), pick((3, 3), (1, 1), (5, 5), (1, 7), (2, 2))
    groups = pick(1, 1, *factors(math.gcd(channels, outputs))[:5])
    if pick(False, False, True):
        outputs = groups = channels
    attributes = window(net, pick, tuple(image), kernel)
    made = _weight(net, pick, x, (outputs, channels // groups, *kernel))
    bias = []
    if pick(True, False):
        bias = [net.constant(net.rng.integers(-3000, 3000, outputs), "int32")]
    codes = _of_sums(net, pick, x, made)
    scale, zero = _meaning(net, codes)
    inputs = [*net.parts(x), *_parts(net, pick, made, made.values), scale, zero, *bias]
    return net.meant("QLinearConv", codes, *inputs, group=groups, **attributes)


def qlinear_matmul(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    width, outputs = net.shape_of(x)[-1], pick(16, 1, 5, 33)
    made = _weight(net, pick, x, (outputs, width))
    codes = _of_sums(net, pick, x, made)
    weights = _parts(net, pick, made, made.values.T)
    return net.meant("QLinearMatMul", codes, *net.parts(x), *weights, *_meaning(net, codes))


def _weight(net: QuantizedNet, pick: Choices, x: str, shape: tuple[int, ...]) -> Weight:
    made = weight(net, pick, shape, net.codes[x].grid.most, BITS)
    if made.dtype == "uint8" and net.codes[x].dtype == "int8":
        raise Skip("ONNX Runtime has no such operator")
    return made


def _of_sums(net: QuantizedNet, pick: Choices, x: str, made: Weight) -> Codes:
    drawn = net.draw(pick, net.codes[x].grid.size * made.grid().size)
    return Codes(drawn.exponent, 128 if net.codes[x].dtype == "uint8" else 0, net.codes[x].dtype)


def _meaning(net: QuantizedNet, codes: Codes) -> tuple[str, str]:
    return net.scalar(2.0**codes.exponent), net.scalar(codes.zero, codes.dtype)


def _parts(net: QuantizedNet, pick: Choices, made: Weight, values: np.ndarray) -> list[str]:
    one = len(set(made.exponents)) == 1 and pick(True, False)
    scales = 2.0 ** np.asarray(made.exponents, float)
    scale = net.scalar(scales[0]) if one else net.constant(scales)
    zero = net.constant(np.full(() if one else len(scales), made.zero), made.dtype)
    return [net.constant(values, made.dtype), scale, zero]


def conv_integer(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    if net.codes[x].dtype != "uint8":
        raise Skip("ONNX Runtime has no such operator")
    channels, *image = net.shape_of(x)[1:]
    outputs, kernel = pick(*CHANNELS), pick((3, 3), (1, 1), (2, 2))
    groups = pick(1, *factors(math.gcd(channels, outputs))[:3])
    attributes = window(net, pick, tuple(image), kernel)
    made = _weight(net, pick, x, (outputs, channels // groups, *kernel))
    inputs = [x, net.constant(made.values, made.dtype), net.parts(x)[2]]
    inputs.append(net.scalar(made.zero, made.dtype))
    return _scaled(net, pick, x, made, net("ConvInteger", *inputs, group=groups, **attributes))


def matmul_integer(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    made = _weight(net, pick, x, (pick(16, 1, 5, 33), net.shape_of(x)[-1]))
    values = net.constant(made.values.T, made.dtype)
    zeros = [net.parts(x)[2]]
    if made.zero or made.dtype == "uint8" or pick(True, False):
        each = len(made.values) if pick(False, True) else ()
        zeros.append(net.constant(np.full(each, made.zero), made.dtype))
    return _scaled(net, pick, x, made, net("MatMulInteger", x, values, *zeros))


def _scaled(net: QuantizedNet, pick: Choices, x: str, made: Weight, sums: str) -> str:
    """The int32 sums as floats in one scale, and as codes."""
    code = net.codes[x].grid
    most = int(np.abs(made.values - made.zero).reshape(len(made.values), -1).sum(1).max())
    unit = code.unit - 7
    floats = net("Mul", net("Cast", sums, to=TensorProto.FLOAT), net.scalar(2.0**unit))
    grid = Grid(unit, code.most * most, made.grid().size * code.size)
    return net.coded(pick, net.known(floats, grid))


def qlinear_concat(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    alike = [
        name
        for name in reversed(net.maps)
        if net.shape_of(name) == net.shape_of(x) and net.codes[name].dtype == net.codes[x].dtype
    ]
    others = [pick(*alike[:4]) for _ in range(pick(1, 2))]
    codes = net.codes[pick(x, others[0])]
    shape = list(net.shape_of(x))
    shape[1] *= len(others) + 1
    inputs = [*_meaning(net, codes), *net.parts(x)]
    for other in others:
        inputs += net.parts(other)
    out = net.of_runtime("QLinearConcat", tuple(shape), codes.dtype, *inputs, axis=1)
    net.codes[out] = codes
    return out


def qlinear_binary(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape, dtype = net.shape_of(x), net.codes[x].dtype
    alike = [
        name
        for name in reversed(net.maps)
        if net.shape_of(name) == shape and net.codes[name].dtype == dtype
    ]
    other = pick(*alike[:4])
    kind = pick("QLinearAdd", "QLinearMul")
    sizes = [net.codes[name].grid.size for name in (x, other)]
    size = math.prod(sizes) if kind == "QLinearMul" else sum(sizes)
    inputs = [*net.parts(x), *net.parts(other), *_odd(net, pick, size, dtype)]
    return _loose(net, net.of_runtime(kind, shape, dtype, *inputs))


def qlinear_unary(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    code = net.codes[x]
    kind = pick("QLinearSigmoid", "QLinearLeakyRelu")
    size, attributes = (0.5, {}) if kind == "QLinearSigmoid" else (code.grid.size, {"alpha": 0.3})
    inputs = [*net.parts(x), *_odd(net, pick, size, code.dtype)]
    return _loose(net, net.of_runtime(kind, net.shape_of(x), code.dtype, *inputs, **attributes))


def qlinear_pool(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    code, shape = net.codes[x], net.shape_of(x)
    inputs = [*net.parts(x), *_odd(net, pick, code.grid.size, code.dtype)]
    if pick(True, False):
        kind = "QLinearGlobalAveragePool"
        return _loose(net, net.of_runtime(kind, (*shape[:2], 1, 1), code.dtype, *inputs))
    kernel = pick((2, 2), (3, 3), (1, 3))
    steps = pick((1, 1), (2, 2))
    if shape[2] < kernel[0] or shape[3] < kernel[1]:
        raise Skip("the window is larger than the image")
    image = ((shape[axis + 2] - kernel[axis]) // steps[axis] + 1 for axis in (0, 1))
    out = net.of_runtime(
        "QLinearAveragePool",
        (*shape[:2], *image),
        code.dtype,
        *inputs,
        kernel_shape=kernel,
        strides=steps,
    )
    return _loose(net, out)


def _odd(net: QuantizedNet, pick: Choices, size: float, dtype: str) -> list[str]:
    """A scale that is no power of two, and a zero point."""
    scale = size / 40 * net.rng.uniform(0.7, 1.3)
    return [net.scalar(scale), net.scalar(pick(128, 0, 3) if dtype == "uint8" else 0, dtype)]


def _loose(net: QuantizedNet, *names: str) -> str:
    """No later layer reads it."""
    net.loose.extend(names)
    return ""


def dynamic(net: QuantizedNet, pick: Choices) -> str:
    """What ``quantize_dynamic`` writes of a dense layer."""
    x = net.pick(pick, rank=None)
    if len(net.shape_of(x)) < 2:
        raise Skip("a vector")
    real = net("Mul", net.real(x), net.scalar(1.2345))
    codes, scale, zero = net.several(3, "DynamicQuantizeLinear", real)
    values = net.rng.integers(-60, 61, (net.shape_of(x)[-1], pick(16, 5)))
    sums = net("MatMulInteger", codes, net.constant(values, "int8"), zero)
    scale = net("Mul", scale, net.scalar(0.01))
    out = net("Mul", net("Cast", sums, to=TensorProto.FLOAT), scale)
    return _loose(net, codes, zero, out)


KINDS: dict[str, Write] = {
    "qlinear conv": qlinear_conv,
    "qlinear matmul": qlinear_matmul,
    "conv integer": conv_integer,
    "matmul integer": matmul_integer,
    "qlinear concat": qlinear_concat,
    "qlinear binary": qlinear_binary,
    "qlinear unary": qlinear_unary,
    "qlinear pool": qlinear_pool,
    "dynamic": dynamic,
}
