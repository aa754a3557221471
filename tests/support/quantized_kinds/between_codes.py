"""QDQ layers: a float operator of dequantised tensors, its result quantised."""

from __future__ import annotations

import math

import numpy as np
from layer_kinds.layer import factors
from layer_kinds.windows import window
from random_onnx import Choices, Shape, Skip
from random_quantized import LIMIT, Grid, QuantizedNet, Weight, Write, weight

CHANNELS = (8, 16, 3, 1, 17, 24, 32, 33, 5, 12, 48, 64)


def conv(net: QuantizedNet, pick: Choices) -> str:
    return net.coded(pick, _function(net, pick, _conv(net, pick, net.pick(pick), pick(*CHANNELS))))


def residual(net: QuantizedNet, pick: Choices) -> str:
    """A convolution that keeps the map, which is added with or without a step between."""
    x = net.pick(pick)
    out = _conv(net, pick, x, net.shape_of(x)[1], same=True)
    if pick(True, False):
        out = net.real(net.coded(pick, out))
    pair = pick((out, net.real(x)), (net.real(x), out))
    total = net.known(net("Add", *pair), net.grids[out].plus(net.grids[pair[0]]))
    if pick(True, False):
        total = net.like(net("Relu", total), total)
    return net.coded(pick, total)


def depthwise(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    many = channels * pick(1, 1, 2)
    out = _conv(net, pick, x, many, groups=channels)
    return net.coded(pick, _function(net, pick, out))


def _conv(
    net: QuantizedNet, pick: Choices, x: str, outputs: int, groups: int = 0, same: bool = False
) -> str:
    channels, *image = net.shape_of(x)[1:]
    kernel = pick((3, 3), (1, 1), (3, 3), (1, 1), (5, 5), (1, 7), (3, 1), (2, 2), (4, 3))
    if not groups:
        groups = pick(1, *factors(math.gcd(channels, outputs))[:5])
    if same:
        kernel = pick((3, 3), (1, 1), (5, 5))
        attributes: dict[str, object] = {"pads": [kernel[0] // 2, kernel[1] // 2] * 2}
    else:
        attributes = window(net, pick, tuple(image), kernel)
    code = net.codes[x].grid
    shape = (outputs, channels // groups, *kernel)
    made = weight(net, pick, shape, code.most)
    rows = made.grid()
    bias = _bias(net, pick, made, code.unit)
    grid = Grid(code.unit + rows.unit, code.most * rows.most, rows.size * code.size)
    out = net("Conv", net.real(x), _real_weight(net, pick, made), *bias, group=groups, **attributes)
    return _bounded(net, out, grid, bool(bias))


def _bounded(net: QuantizedNet, out: str, grid: Grid, biased: bool) -> str:
    """Every row is exact by itself; what is added to rows of different scales may not be."""
    most = grid.most + (LIMIT // 4 if biased else 0)
    net.grids[out] = Grid(grid.unit, most, grid.size)
    return out


def _bias(net: QuantizedNet, pick: Choices, made: Weight, unit: int) -> list[str]:
    """int32 in the scale of the sums, or the same in floats."""
    form = pick("codes", "none", "floats", "codes")
    if form == "none":
        return []
    count = len(made.values)
    values = net.rng.integers(-3000, 3000, count)
    scales = 2.0 ** (np.asarray(made.exponents, float) + unit)
    if form == "floats":
        return [net.constant(values * scales)]
    one = len(set(made.exponents)) == 1 and pick(True, False)
    scale = net.scalar(scales[0]) if one else net.constant(scales)
    zero = [net.constant(np.zeros(() if one else count), "int32")] if pick(True, False) else []
    axis = {} if one else {"axis": 0}
    return [net("DequantizeLinear", net.constant(values, "int32"), scale, *zero, **axis)]


def _real_weight(net: QuantizedNet, pick: Choices, made: Weight, axis: int = 0) -> str:
    """The weight dequantised, of codes or of floats that a Q in the file makes codes."""
    one = len(set(made.exponents)) == 1 and pick(True, False)
    scales = 2.0 ** np.asarray(made.exponents, float)
    scale = net.scalar(scales[0]) if one else net.constant(scales)
    zero = net.constant(np.full(() if one else len(scales), made.zero), made.dtype)
    attributes = {} if one else {"axis": axis}
    values = np.moveaxis(made.values, 0, axis)
    if pick(True, True, False):
        codes = net.constant(values, made.dtype)
    else:
        ends = [1] * values.ndim
        ends[axis] = -1
        floats = net.constant((values - made.zero) * scales.reshape(ends))
        codes = net("QuantizeLinear", floats, scale, zero, **attributes)
    known = [zero] if made.zero or made.dtype == "uint8" or pick(True, False) else []
    return net("DequantizeLinear", codes, scale, *known, **attributes)


def conv_transpose(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels, code = net.shape_of(x)[1], net.codes[x].grid
    kernel, strides, pads = pick(
        ((2, 2), (2, 2), 0), ((1, 2), (1, 2), 0), ((4, 4), (2, 2), 1), ((3, 3), (2, 2), 1)
    )
    outputs = pick(8, 16, 3, 17, 6)
    made = weight(net, lambda *options: options[0], (channels, outputs, *kernel), code.most)
    rows = made.grid()
    terms = channels * math.prod(kernel)
    grid = Grid(code.unit + rows.unit, code.most * terms * 127, code.size * rows.size).checked()
    real = _real_weight(net, pick, made)
    out = net("ConvTranspose", net.real(x), real, strides=strides, pads=[pads] * 4)
    return net.coded(pick, net.known(out, grid))


def dense(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    if len(net.shape_of(x)) != 2:
        x = net.meant("Flatten", net.codes[x], x, axis=1)
    width, outputs = net.shape_of(x)[1], pick(10, 1, 16, 33, 64)
    if width * outputs > 60_000:
        raise Skip("a large weight")
    code = net.codes[x].grid
    made = weight(net, pick, (outputs, width), code.most)
    rows = made.grid()
    bias = _bias(net, pick, made, code.unit)
    if pick(True, False):
        out = net("Gemm", net.real(x), _real_weight(net, pick, made), *bias, transB=1)
    else:
        out = net("MatMul", net.real(x), _real_weight(net, pick, made, 1))
        out = net("Add", *pick((out, *bias), (*bias, out))) if bias else out
    grid = Grid(code.unit + rows.unit, code.most * rows.most, rows.size * code.size)
    return net.coded(pick, _function(net, pick, _bounded(net, out, grid, bool(bias))))


def tokens(net: QuantizedNet, pick: Choices) -> str:
    """A product over the channels of each pixel, or of two computed tensors."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    rows = net.meant("Reshape", net.codes[x], x, net.integers(batch, channels, height * width))
    turned = net.meant("Transpose", net.codes[x], rows, perm=[0, 2, 1])
    code = net.codes[x].grid
    if pick(True, False):
        outputs = pick(16, channels, 5, 32)
        made = weight(net, pick, (outputs, channels), code.most)
        weights = made.grid()
        out = net("MatMul", net.real(turned), _real_weight(net, pick, made, 1))
        grid = Grid(code.unit + weights.unit, code.most * weights.most, weights.size * code.size)
        out = net.coded(pick, _function(net, pick, _bounded(net, out, grid, False)))
        out = net.meant("Transpose", net.codes[out], out, perm=[0, 2, 1])
        sizes = net.integers(batch, outputs, height, width)
        return net.meant("Reshape", net.codes[out], out, sizes)
    grid = code.times(code, channels)
    scores = net.known(net("MatMul", net.real(turned), net.real(rows)), grid)
    scores = net.coded(pick, scores)
    return net.meant("Unsqueeze", net.codes[scores], scores, net.integers(1))


def binary(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    other = net.pick(pick, rank=len(shape), like=shape)
    pair = net.real(x), net.real(other)
    return net.coded(pick, _function(net, pick, _combined(net, pick, *pair)))


def with_constant(net: QuantizedNet, pick: Choices) -> str:
    """A tensor and a constant: one number, or one for each channel; codes or floats."""
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    shape: Shape = pick((), (channels, 1, 1), (1, channels, 1, 1), (1,))
    code, dtype = pick((128, "uint8"), (0, "int8"), (3, "uint8"))
    exponent = pick(-6, -5, -7)
    values = net.rng.integers(code, code + 100, shape)
    if pick(True, False):
        scale, zero = net.scalar(2.0**exponent), net.scalar(code, dtype)
        constant = net("DequantizeLinear", net.constant(values, dtype), scale, zero)
    else:
        constant = net.constant((values - code) * 2.0**exponent)
    net.known(constant, Grid(exponent, 128, 2.0**exponent * 60))
    pair = pick((net.real(x), constant), (constant, net.real(x)))
    return net.coded(pick, _function(net, pick, _combined(net, pick, *pair)))


def broadcast(net: QuantizedNet, pick: Choices) -> str:
    """A tensor and the largest elements of its rows."""
    x = net.pick(pick)
    axes = net.integers(*pick((2, 3), (1,), (3,)))
    small = net.like(net("ReduceMax", real := net.real(x), axes, keepdims=1), real)
    if pick(True, False):
        small = net.real(net.coded(pick, small))
    pair = pick((net.real(x), small), (small, net.real(x)))
    return net.coded(pick, _combined(net, pick, *pair))


def _combined(net: QuantizedNet, pick: Choices, left: str, right: str) -> str:
    kind = pick("Add", "Mul", "Sub", "Max", "Min")
    grids = net.grids[left], net.grids[right]
    grid = grids[0].times(grids[1]) if kind == "Mul" else grids[0].plus(grids[1])
    return net.known(net(kind, left, right), grid)


def _function(net: QuantizedNet, pick: Choices, x: str) -> str:
    """A function of one element that keeps floats exact, or none."""
    kind = pick("none", "Relu", "Clip", "LeakyRelu", "none", "Neg", "Abs", "HardSigmoid", "PRelu")
    grid = net.grids[x]
    if kind == "none":
        return x
    if kind == "Clip":
        low, high = pick((0.0, 6.0), (-1.0, 1.0), (0.0, None), (None, 0.5), (0.25, 4.0))
        bounds = ["" if bound is None else net.scalar(bound) for bound in (low, high)]
        return net.known(net("Clip", x, *bounds), grid.finer(-2))
    if kind == "LeakyRelu":
        out = net(kind, x, alpha=pick(0.25, 0.125, 2.0))
        return net.known(out, Grid(grid.unit - 3, grid.most * 16, grid.size))
    if kind == "PRelu":
        shape = net.shape_of(x)
        slopes = (shape[1], *(1 for _ in shape[2:])) if pick(True, False) else (1,)
        values = 2.0 ** -net.rng.integers(0, 4, slopes)
        out = net(kind, x, net.constant(values * pick(1, -1)))
        return net.known(out, Grid(grid.unit - 3, grid.most * 8, grid.size))
    if kind == "HardSigmoid":
        half = Grid(-1, 1, 0.5)
        scaled = Grid(grid.unit - 2, grid.most, grid.size / 4)
        return net.known(net(kind, x, alpha=0.25, beta=0.5), scaled.plus(half))
    return net.like(net(kind, x), x)


def function(net: QuantizedNet, pick: Choices) -> str:
    """One function between codes, or codes of another scale."""
    return net.coded(pick, _function(net, pick, net.real(net.pick(pick, rank=None))))


KINDS: dict[str, Write] = {
    "conv": conv,
    "residual": residual,
    "depthwise": depthwise,
    "conv transpose": conv_transpose,
    "dense": dense,
    "tokens": tokens,
    "binary": binary,
    "with constant": with_constant,
    "broadcast": broadcast,
    "function": function,
}
