"""Layers that move a window over an image: convolutions, pools, and what is made of them."""

from __future__ import annotations

import math

from random_onnx import Choices, RandomNet, Shape, Skip

from layer_kinds.layer import Write, factors

CHANNELS = (8, 16, 3, 1, 17, 24, 32, 33, 58, 5, 12, 64)


def window(net: RandomNet, pick: Choices, image: Shape, kernel: Shape) -> dict[str, object]:
    """Padding, stride and dilation of a window that fits into the image."""
    attributes: dict[str, object] = {"kernel_shape": kernel}
    same = [size // 2 for size in kernel]
    attributes["strides"] = pick((1, 1), (2, 2), (1, 2), (3, 1), (3, 3))
    pads = pick("same", "none", "begin", "end", "SAME_UPPER", "SAME_LOWER", "VALID")
    around = [0, 0, 0, 0]
    if pads in ("same", "none", "begin", "end"):
        begin = [0 if pads in ("none", "end") else size for size in same]
        end = [0 if pads in ("none", "begin") else size for size in same]
        around = attributes["pads"] = [*begin, *end]
    else:
        attributes["auto_pad"] = pads
    dilations = pick((1, 1), (1, 1), (2, 2), (1, 3))
    if dilations != (1, 1):
        attributes["dilations"] = dilations
    if pads.startswith("SAME"):
        if "dilations" in attributes:
            raise Skip("ONNX Runtime refuses it, or pads less than ONNX says")
        return attributes
    for axis, size in enumerate(kernel):
        if image[axis] + around[axis] + around[axis + 2] <= (size - 1) * dilations[axis]:
            raise Skip("the window is larger than the image")
    return attributes


def conv(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    _, channels, *image = net.shape_of(x)
    kernel = pick((3, 3), (1, 1), (5, 5), (1, 7), (3, 1), (2, 2), (7, 7), (4, 3))
    outputs = pick(*CHANNELS)
    groups = pick(*factors(math.gcd(channels, outputs))[:6])
    attributes = window(net, pick, tuple(image), kernel)
    weights = [net.weight(outputs, channels // groups, *kernel)]
    if pick(True, False):
        weights.append(net.weight(outputs))
    return net("Conv", x, *weights, group=groups, **attributes)


def plain_conv(net: RandomNet, pick: Choices) -> str:
    """What most convolutions are: 3x3 or 1x1 that keep the image, ReLU behind it."""
    x = net.pick(pick)
    channels, outputs = net.shape_of(x)[1], pick(*CHANNELS)
    size = pick(3, 1)
    weights = net.weight(outputs, channels, size, size), net.weight(outputs)
    out = net("Conv", x, *weights, pads=[size // 2] * 4)
    return net("Relu", out) if pick(True, False) else out


def depthwise(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    _, channels, *image = net.shape_of(x)
    kernel = pick((3, 3), (5, 5), (1, 3), (2, 2), (7, 7))
    multiplier = pick(1, 1, 2, 3)
    attributes = window(net, pick, tuple(image), kernel)
    weight = net.weight(channels * multiplier, 1, *kernel)
    return net("Conv", x, weight, group=channels, **attributes)


def conv_transpose(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    kernel = pick((2, 2), (3, 3), (4, 4), (1, 2), (5, 3))
    strides = pick((2, 2), (1, 1), (3, 2))
    outputs = pick(8, 16, 3, 17, 6)
    groups = pick(*factors(math.gcd(channels, outputs))[:4])
    attributes: dict[str, object] = {"strides": strides, "group": groups}
    attributes["pads"] = pick([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0])
    extra = pick((0, 0), (1, 0), (0, 1))
    if all(e < s for e, s in zip(extra, strides, strict=True)):
        attributes["output_padding"] = extra
    if pick(False, False, True):
        attributes["dilations"] = (2, 1)
    weight = net.weight(channels, outputs // groups, *kernel)
    return net("ConvTranspose", x, weight, net.weight(outputs), **attributes)


def conv1d(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    line = net("Reshape", x, net.integers(batch, channels, height * width))
    out = net("Conv", line, net.weight(8, channels, 3), net.weight(8), pads=[1, 1])
    return net("Reshape", out, net.integers(batch, 8, height, width))


def conv3d(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    cube = net("Reshape", x, net.integers(batch, 1, channels, height, width))
    out = net("Conv", cube, net.weight(2, 1, 3, 3, 3), pads=[1] * 6)
    return net("Reshape", out, net.integers(batch, 2 * channels, height, width))


def pool(kind: str) -> Write:
    def write(net: RandomNet, pick: Choices) -> str:
        x = net.pick(pick)
        kernel = pick((2, 2), (3, 3), (3, 2), (5, 5), (1, 4))
        attributes = window(net, pick, net.shape_of(x)[2:], kernel)
        if "auto_pad" not in attributes and pick(False, True):
            attributes["ceil_mode"] = 1
        if kind == "AveragePool" and pick(False, True):
            attributes["count_include_pad"] = 1
        if kind == "LpPool":
            attributes["p"] = pick(2, 1, 3)
        return net(kind, x, **attributes)

    return write


def global_pool(net: RandomNet, pick: Choices) -> str:
    kind = pick("GlobalAveragePool", "GlobalMaxPool")
    return net(kind, net.pick(pick))


def residual(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    out = net("Conv", x, net.weight(channels, channels, 3, 3), pads=[1, 1, 1, 1])
    if pick(False, True):
        out = net("Relu", out)
    total = net("Add", *pick((out, x), (x, out)))
    return net("Relu", total) if pick(True, False) else total


def inception(net: RandomNet, pick: Choices) -> str:
    """Branches of one tensor, concatenated."""
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    parts = []
    for _ in range(pick(2, 3)):
        outputs, size = pick(8, 16, 5, 24, 17), pick(1, 3)
        part = net("Conv", x, net.weight(outputs, channels, size, size), pads=[size // 2] * 4)
        parts.append(net("Relu", part) if pick(True, False) else part)
    if pick(False, True):
        parts.append(net("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4))
    return net("Concat", *parts, axis=1)


def gate(net: RandomNet, pick: Choices) -> str:
    """Squeeze and excite."""
    x = net.pick(pick)
    batch, channels = net.shape_of(x)[:2]
    inner = pick(max(1, channels // 4), 8, 3)
    if pick(True, False):
        axes = net.integers(2, 3)
        squeezed = pick(
            lambda: net("GlobalAveragePool", x),
            lambda: net("ReduceMean", x, axes, keepdims=1),
            lambda: net("ReduceMax", x, axes, keepdims=1),
        )()
        mid = net("Relu", net("Conv", squeezed, net.weight(inner, channels, 1, 1)))
        wide = net("Conv", mid, net.weight(channels, inner, 1, 1), net.weight(channels))
    else:
        squeezed = net("ReduceMean", x, net.integers(2, 3), keepdims=0)
        mid = net("Relu", net("Gemm", squeezed, net.weight(inner, channels), transB=1))
        wide = net("MatMul", mid, net.weight(inner, channels))
        wide = net("Reshape", wide, net.integers(batch, channels, 1, 1))
    weights = net(pick("Sigmoid", "HardSigmoid"), wide)
    return net("Mul", *pick((x, weights), (weights, x)))


def pixel_shuffle(net: RandomNet, pick: Choices) -> str:
    """A convolution and PyTorch's pixel shuffle behind it."""
    x = net.pick(pick)
    outputs = pick(3, 8, 1)
    wide = net("Conv", x, net.weight(outputs * 4, net.shape_of(x)[1], 3, 3), pads=[1] * 4)
    return net("DepthToSpace", wide, blocksize=2, mode=pick("CRD", "DCR"))


KINDS: dict[str, Write] = {
    "conv": conv,
    "plain conv": plain_conv,
    "depthwise": depthwise,
    "conv transpose": conv_transpose,
    "conv1d": conv1d,
    "conv3d": conv3d,
    "max pool": pool("MaxPool"),
    "average pool": pool("AveragePool"),
    "lp pool": pool("LpPool"),
    "global pool": global_pool,
    "residual": residual,
    "inception": inception,
    "gate": gate,
    "pixel shuffle": pixel_shuffle,
}
