"""QDQ layers that move codes, or pool them."""

from __future__ import annotations

import math

from layer_kinds.layer import factors
from layer_kinds.windows import window
from random_onnx import Choices, Skip
from random_quantized import Codes, Grid, QuantizedNet, Write


def _again(net: QuantizedNet, pick: Choices, x: str, out: str) -> str:
    """Codes of the same meaning, as quantisers write them, or of another one."""
    same = net.codes[x]
    if pick(True, False):
        return net.meant("QuantizeLinear", same, out, *net.parts(x)[1:])
    return net.coded(pick, net.known(out, same.grid))


def max_pool(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    kernel = pick((2, 2), (3, 3), (3, 2), (5, 5), (1, 4))
    attributes = window(net, pick, net.shape_of(x)[2:], kernel)
    if attributes.get("dilations", (1, 1)) != (1, 1) and min(net.shape_of(x)[2:]) < 4:
        # Between the taps of a window may be all of the image: the maximum of nothing is the least
        # code to a pool of codes, and minus infinity to one of floats.
        raise Skip("a window may be padding alone")
    if pick(True, False):
        return _again(net, pick, x, net("MaxPool", net.real(x), **attributes))
    return net.meant("MaxPool", net.codes[x], x, **attributes)


def average_pool(net: QuantizedNet, pick: Choices) -> str:
    """Windows of a power of two, so that the mean is exact."""
    x = net.pick(pick)
    kernel, image = pick((2, 2), (1, 2), (4, 4), (2, 1), (4, 1)), net.shape_of(x)[2:]
    attributes: dict[str, object] = {"strides": pick(kernel, (1, 1), (2, 2))}
    if pick(False, True):
        attributes |= {"pads": [0, 0, kernel[0] - 1, kernel[1] - 1], "count_include_pad": 1}
    elif any(extent < size for extent, size in zip(image, kernel, strict=True)):
        raise Skip("the window is larger than the image")
    out = net("AveragePool", net.real(x), kernel_shape=kernel, **attributes)
    return net.coded(pick, _mean(net, x, out, math.prod(kernel)))


def global_pool(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    count = math.prod(net.shape_of(x)[2:])
    if count & (count - 1):
        raise Skip("the mean is rounded")
    if pick(True, False):
        out = net("GlobalAveragePool", net.real(x))
    else:
        out = net("ReduceMean", net.real(x), net.integers(2, 3), keepdims=pick(1, 0))
    return net.coded(pick, _mean(net, x, out, count))


def _mean(net: QuantizedNet, x: str, out: str, count: int) -> str:
    code = net.codes[x].grid
    grid = Grid(code.unit - count.bit_length() + 1, code.most * count, code.size)
    return net.known(out, grid)


def concat(net: QuantizedNet, pick: Choices) -> str:
    """Parts in scales of their own."""
    x = net.pick(pick)
    shape = net.shape_of(x)
    alike = [
        name
        for name in reversed(net.maps)
        if len(net.shape_of(name)) == 4
        and (net.shape_of(name)[0], *net.shape_of(name)[2:]) == (shape[0], *shape[2:])
    ]
    parts = [x, *(pick(*alike[:4]) for _ in range(pick(1, 2, 3)))]
    out = net("Concat", *(net.real(part) for part in parts), axis=1)
    code = max((net.codes[part] for part in parts), key=lambda each: each.exponent)
    low = min(net.codes[part].exponent for part in parts)
    net.known(out, Grid(code.exponent, code.grid.most, code.grid.size).finer(low))
    if pick(True, False):
        return net.meant("QuantizeLinear", net.codes[x], out, *net.parts(x)[1:])
    return net.coded(pick, out)


def resize(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    scales = net.constant([1, 1, pick(2, 3, 1), pick(2, 1, 3)])
    place = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    out = net("Resize", net.real(x), "", scales, mode="nearest", **place)
    return _again(net, pick, x, out)


def pad(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    widths = [0, 0, pick(1, 0, 2), pick(1, 2, 0), 0, pick(0, 1), pick(1, 0), pick(0, 2, -1)]
    mode = pick("constant", "reflect", "edge")
    if min(shape[2:]) < 3:
        raise Skip("a small image")
    value = [net.scalar(pick(0.0, 0.5, -1.0))] if mode == "constant" and pick(True, False) else []
    out = net("Pad", net.real(x), net.integers(*widths), *value, mode=mode)
    net.known(out, net.codes[x].grid.finer(-1))
    if pick(True, False):
        return net.meant("QuantizeLinear", net.codes[x], out, *net.parts(x)[1:])
    return net.coded(pick, out)


def move(net: QuantizedNet, pick: Choices) -> str:
    """Elements in other places: of floats between codes, or of the codes."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    on_codes = pick(False, True)
    source = x if on_codes else net.real(x)
    kind = pick("transpose", "slice", "reshape", "gather", "flip", "shuffle", "space")
    if kind == "transpose":
        out = net("Transpose", source, perm=pick((0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 1, 2)))
    elif kind in ("slice", "flip"):
        axis = pick(1, 2, 3)
        extent = net.shape_of(x)[axis]
        bounds = (-1, -(2**31), -1) if kind == "flip" else (extent // 3, extent, pick(1, 2))
        begin, end, step = (net.integers(each) for each in bounds)
        out = net("Slice", source, begin, end, net.integers(axis), step)
    elif kind == "reshape":
        total = channels * height * width
        first = pick(*factors(total)[:10])
        out = net("Reshape", source, net.integers(batch, first, 1, -1))
    elif kind == "gather":
        indices = [pick(0, 1, 2, 3) % channels for _ in range(pick(2, 8, 1))]
        out = net("Gather", source, net.integers(*indices), axis=1)
    elif kind == "shuffle":
        groups = pick(*factors(channels))
        parts = net.integers(batch, groups, channels // groups, height, width)
        out = net("Transpose", net("Reshape", source, parts), perm=[0, 2, 1, 3, 4])
        out = net("Reshape", out, net.integers(batch, channels, height, width))
    else:
        # ONNX Runtime has neither for codes.
        source = net.real(x)
        on_codes = False
        kind = "DepthToSpace" if channels % 4 == 0 else "SpaceToDepth"
        if kind == "SpaceToDepth" and (height % 2 or width % 2):
            raise Skip("the image does not divide")
        out = net(kind, source, blocksize=2)
    if on_codes:
        net.codes[out] = net.codes[x]
        return out
    return _again(net, pick, x, out)


def split(net: QuantizedNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    if channels < 2:
        raise Skip("nothing to split")
    first = pick(channels // 2, 1)
    sizes = net.integers(first, channels - first)
    parts = net.several(2, "Split", net.real(x), sizes, axis=1)
    first_part, second_part = (_again(net, pick, x, part) for part in parts)
    net.maps.append(first_part)
    return second_part


def recoded(net: QuantizedNet, pick: Choices) -> str:
    """The same codes by other numbers: from uint8 to int8, 128 below."""
    x = net.pick(pick, rank=None)
    code = net.codes[x]
    shifted = code.zero - 128 if code.dtype == "uint8" else code.zero + 128
    dtype = "int8" if code.dtype == "uint8" else "uint8"
    meant = Codes(code.exponent, shifted, dtype)
    scale, zero = net.scalar(2.0**code.exponent), net.scalar(shifted, dtype)
    return net.meant("QuantizeLinear", meant, net.real(x), scale, zero)


def reread(net: QuantizedNet, pick: Choices) -> str:
    """The same codes, read with another scale or zero point than they were made with."""
    x = net.pick(pick, rank=None)
    code = net.codes[x]
    zero = code.zero + pick(4, 0) if code.zero < 100 else code.zero - pick(4, 0)
    return net.meant("Identity", Codes(code.exponent + pick(0, 1, -1), zero, code.dtype), x)


KINDS: dict[str, Write] = {
    "max pool": max_pool,
    "average pool": average_pool,
    "global pool": global_pool,
    "concat": concat,
    "resize": resize,
    "pad": pad,
    "move": move,
    "split": split,
    "recoded": recoded,
    "reread": reread,
}
