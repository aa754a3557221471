"""The layers of random networks: each reads earlier maps, and picks its attributes."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx
from random_onnx import Choices, RandomNet, Shape, Sketch, Skip

Write = Callable[[RandomNet, Choices], str]

CHANNELS = (8, 16, 3, 1, 17, 24, 32, 33, 58, 5, 12, 64)


def factors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


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


def batch_norm(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    bounds = ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 1.5))
    parts = [net.uniform(*bound, channels) for bound in bounds]
    return net("BatchNormalization", x, *parts)


def norm(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    kind = pick("InstanceNormalization", "GroupNormalization", "LayerNormalization", "LRN", "MVN")
    if math.prod(shape[2:]) < 2:
        raise Skip("the variance of one element is zero")
    pair = [net.uniform(0.5, 1.5, shape[1]), net.uniform(-0.5, 0.5, shape[1])]
    if kind == "LRN":
        return net("LRN", x, size=pick(5, 3, 7), alpha=0.1, beta=0.75, bias=1.5)
    if kind == "MVN":
        return net("MeanVarianceNormalization", x, axes=pick([0, 2, 3], [2, 3]))
    if kind == "GroupNormalization":
        groups = pick(*factors(shape[1])[:5])
        return net(kind, x, *pair, num_groups=groups)
    if kind == "LayerNormalization":
        axis = pick(1, -2, 2)
        scales = [net.uniform(0.5, 1.5, *shape[axis:]), net.uniform(-0.5, 0.5, *shape[axis:])]
        return net(kind, x, *scales[: pick(2, 1)], axis=axis)
    return net(kind, x, *pair)


ACTIVATIONS: dict[str, dict[str, tuple[float, ...]]] = {
    "Relu": {},
    "LeakyRelu": {"alpha": (0.01, 0.3, 1.5)},
    "Sigmoid": {},
    "Tanh": {},
    "HardSwish": {},
    "HardSigmoid": {"alpha": (0.2, 0.5), "beta": (0.5, 0.3)},
    "Elu": {"alpha": (1.0, 0.5)},
    "Selu": {},
    "Celu": {"alpha": (1.0, 0.7)},
    "Softplus": {},
    "Softsign": {},
    "Mish": {},
    "Erf": {},
    "Abs": {},
    "Neg": {},
    "Sin": {},
    "Cos": {},
    "Atan": {},
    "Identity": {},
}


def activation(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    kind = pick(*ACTIVATIONS)
    attributes = {name: pick(*values) for name, values in ACTIVATIONS[kind].items()}
    return net(kind, x, **attributes)


def second_activation(net: RandomNet, pick: Choices) -> str:
    """Another number reaches the far end of the table."""
    kinds = list(ACTIVATIONS)[9:]
    return net(pick(*kinds), net.pick(pick, rank=None))


def composed_activation(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    kind = pick("swish", "clip", "gelu", "tanh gelu", "by hand", "exp", "sqrt", "log", "prelu")
    if kind == "swish":
        return net("Mul", x, net("Sigmoid", x))
    if kind == "clip":
        low, high = pick((0.0, 6.0), (-1.0, 1.0), (0.0, None), (None, 0.5), (0.5, -0.5))
        bounds = ["" if bound is None else net.constant(bound) for bound in (low, high)]
        return net("Clip", x, *bounds)
    if kind in ("gelu", "tanh gelu"):
        return net("Gelu", x, approximate="none" if kind == "gelu" else "tanh")
    if kind == "by hand":
        half = net("Mul", x, net.constant(0.5))
        inner = net("Erf", net("Div", x, net.constant(math.sqrt(2))))
        return net("Mul", half, net("Add", inner, net.constant(1.0)))
    if kind == "exp":
        return net("Exp", net("Clip", x, "", net.constant(2.0)))
    if kind == "sqrt":
        return net("Sqrt", net("Abs", x))
    if kind == "log":
        return net("Log", net("Add", net("Abs", x), net.constant(0.5)))
    shape = net.shape_of(x)
    if len(shape) != 4:
        raise Skip("the slopes are for channels")
    slopes = pick((shape[1], 1, 1), (1,), (1, 1, 1), shape[1:])
    return net("PRelu", x, net.uniform(-0.2, 0.5, *slopes))


def add(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    other = net.pick(pick, rank=len(net.shape_of(x)), like=net.shape_of(x))
    return net(pick("Add", "Sub", "Mul", "Max", "Min", "Sum"), x, other)


def residual(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    out = net("Conv", x, net.weight(channels, channels, 3, 3), pads=[1, 1, 1, 1])
    if pick(False, True):
        out = net("Relu", out)
    total = net("Add", *pick((out, x), (x, out)))
    return net("Relu", total) if pick(True, False) else total


def with_constant(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    ones = tuple(1 for _ in shape)
    shapes: list[Shape] = [(), (1,), shape, shape[-1:], (*shape[:-1], 1), ones]
    if len(shape) == 4:
        shapes += [(shape[1], 1, 1), (1, shape[1], 1, 1), (shape[2], 1), (1, 1, *shape[2:])]
    constant = net.uniform(0.5, 1.5, *pick(*shapes))
    kind = pick("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow")
    if kind == "Pow":
        return net("Pow", x, net.constant(pick(2.0, 3.0)))
    pair = (x, constant) if kind == "Div" or pick(True, False) else (constant, x)
    return net(kind, *pair)


def concat(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    axis = pick(1, 1, 2, 3, -3)
    shape = net.shape_of(x)
    at = axis % 4
    alike = [
        name
        for name in reversed(net.maps)
        if len(net.shape_of(name)) == 4 and _without(net.shape_of(name), at) == _without(shape, at)
    ]
    parts = [x, *(pick(*alike[:4]) for _ in range(pick(1, 2, 3)))]
    return net("Concat", *parts, axis=axis)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


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


def split(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    axis = pick(1, 2, 3)
    extent = net.shape_of(x)[axis]
    if extent < 2:
        raise Skip("nothing to split")
    first = max(1, min(extent - 1, pick(extent // 2, 8, 1, extent // 3)))
    parts = net.several(2, "Split", x, net.integers(first, extent - first), axis=axis)
    net.maps.append(parts[0])
    return parts[1]


def slice_(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    axes = pick((1,), (2, 3), (1, 3), (-1,), (0,))
    begins, ends, steps = [], [], []
    for axis in axes:
        extent = shape[axis]
        step = pick(1, 2, -1, 3)
        begin = pick(0, 1, extent // 2, -extent, -2)
        end = pick(2**31 - 1, -1, extent - 1, extent)
        if step < 0:
            begin, end = pick(-1, extent - 1, extent // 2), pick(-(2**31), 0)
        begins.append(begin)
        ends.append(end)
        steps.append(step)
    return net("Slice", x, *(net.integers(*each) for each in (begins, ends, axes, steps)))


def gather(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    axis = pick(1, 2, 3)
    extent = net.shape_of(x)[axis]
    indices = [pick(0, 1, 2, 3) % extent for _ in range(pick(1, 2, 3, 8))]
    if pick(False, True):
        indices = [index - extent for index in indices]
    return net("Gather", x, net.integers(*indices), axis=axis)


def shuffle(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, channels, *image = net.shape_of(x)
    groups = pick(*factors(channels))
    rows = net("Reshape", x, net.integers(batch, groups, channels // groups, *image))
    rows = net("Transpose", rows, perm=[0, 2, 1, 3, 4])
    return net("Reshape", rows, net.integers(*pick((batch, channels), (0, -1))[:2], *image))


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


def resize(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    shape = net.shape_of(x)
    mode = pick("nearest", "linear", "cubic")
    attributes: dict[str, object] = {"mode": mode}
    attributes["coordinate_transformation_mode"] = pick(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
    )
    if mode == "nearest":
        attributes["nearest_mode"] = pick("round_prefer_floor", "floor", "ceil")
    if pick(True, False):
        scales = pick((2.0, 2.0), (1.5, 1.5), (0.5, 0.5), (3.0, 1.0), (0.7, 1.3))
        return net("Resize", x, "", net.constant([1.0, 1.0, *scales]), **attributes)
    rows, columns = pick((2, 2), (3, 1), (1, 2))
    sizes = net.integers(*shape[:2], shape[2] * rows, shape[3] * columns + pick(0, 1))
    return net("Resize", x, "", "", sizes, **attributes)


def pad(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    mode = pick("constant", "reflect", "edge", "wrap")
    if mode in ("reflect", "wrap") and min(net.shape_of(x)[2:]) < 4:
        raise Skip("the image is smaller than the padding")
    widths = pick(
        (0, 0, 1, 1, 0, 0, 1, 1),
        (0, 0, 0, 2, 0, 0, 1, 0),
        (0, 0, 1, 0, 0, 0, 0, 0),
        (0, 1, 0, 0, 0, 3, 0, 0),
        (0, 0, -1, 0, 0, 0, 0, -1),
        (0, 0, 0, 0, 0, 0, 0, 0),
    )
    if mode != "constant" and (widths[1] or min(widths) < 0):
        raise Skip("of constants alone")
    value = [net.constant(pick(0.0, 0.5))] if mode == "constant" and pick(False, True) else []
    return net("Pad", x, net.integers(*widths), *value, mode=mode)


def reduce(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    rank = len(net.shape_of(x))
    kind = pick("Mean", "Sum", "Max", "Min", "L2", "L1", "SumSquare", "LogSumExp")
    axes = pick((rank - 1,), (1,), (-1, -2), (0,), tuple(range(1, rank)), ())
    if rank < 2:
        raise Skip("nothing to reduce")
    names = [net.integers(*sorted({axis % rank for axis in axes}))] if axes else []
    return net(f"Reduce{kind}", x, *names, keepdims=pick(1, 0))


def dense(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    if len(shape) < 2:
        raise Skip("a vector")
    flat = net("Flatten", x, axis=1) if len(shape) != 2 or pick(False, True) else x
    width, outputs = net.shape_of(flat)[1], pick(10, 1, 16, 33, 64)
    if width * outputs > 300_000:
        raise Skip("a large weight")
    if pick(True, False):
        weight = net.weight(outputs, width)
        bias = [net.weight(outputs)] if pick(True, False) else []
        return net("Gemm", flat, weight, *bias, transB=1, alpha=pick(1.0, 0.5), beta=pick(1.0, 2.0))
    out = net("MatMul", flat, net.constant(net.rng.normal(size=(width, outputs)) / width**0.5))
    return net("Add", out, net.weight(outputs)) if pick(True, False) else out


def tokens(net: RandomNet, pick: Choices) -> str:
    """A matrix product over the channels of every pixel, as a transformer block has it."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    outputs = pick(16, channels, 5, 32)
    rows = net("Reshape", x, net.integers(batch, channels, height * width))
    rows = net("Transpose", rows, perm=[0, 2, 1])
    weight = net.constant(net.rng.normal(size=(channels, outputs)) / channels**0.5)
    out = net("MatMul", rows, weight)
    if pick(True, False):
        out = net(pick("Add", "Mul"), out, net.uniform(0.5, 1.5, outputs))
    if pick(False, True):
        out = net(pick("Relu", "Sigmoid"), out)
    out = net("Transpose", out, perm=[0, 2, 1])
    return net("Reshape", out, net.integers(batch, outputs, height, width))


def attention(net: RandomNet, pick: Choices) -> str:
    """A product of two activations, softmax between them."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    rows = net("Reshape", x, net.integers(batch, channels, height * width))
    scores = net("MatMul", net("Transpose", rows, perm=[0, 2, 1]), rows)
    scores = net("Softmax", net("Mul", scores, net.constant(0.1)), axis=pick(-1, 1))
    return net("Reshape", net("MatMul", rows, scores), net.integers(*net.shape_of(x)))


def nhwc(net: RandomNet, pick: Choices) -> str:
    """There and back, an operation of the last axis between."""
    x = net.pick(pick)
    channels = net.shape_of(x)[1]
    last = net("Transpose", x, perm=[0, 2, 3, 1])
    kind = pick("scale", "norm", "softmax", "dense", "nothing")
    if kind == "scale":
        last = net("Mul", last, net.uniform(0.5, 1.5, channels))
    if kind == "norm":
        last = net("LayerNormalization", last, net.uniform(0.5, 1.5, channels), axis=-1)
    if kind == "softmax":
        last = net("Softmax", last, axis=-1)
    if kind == "dense":
        outputs = pick(8, 20)
        weight = net.constant(net.rng.normal(size=(channels, outputs)) / channels**0.5)
        last = net("MatMul", last, weight)
    return net("Transpose", last, perm=[0, 3, 1, 2])


def transpose(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    return net("Transpose", x, perm=pick((0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3)))


def reshape(net: RandomNet, pick: Choices) -> str:
    """To 4 dimensions again, whatever it was."""
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    if not shape:
        raise Skip("a scalar")
    total = math.prod(shape[1:])
    channels = pick(*factors(total)[:8], total)
    rest = factors(total // channels)
    rows = pick(*rest[:5])
    return net("Reshape", x, net.integers(shape[0], channels, rows, total // channels // rows))


def squeeze(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    ones = [axis for axis, extent in enumerate(shape) if extent == 1 and axis]
    if ones and len(shape) > 2 and pick(True, False):
        return net("Squeeze", x, net.integers(pick(*ones)))
    return net("Unsqueeze", x, net.integers(pick(1, -1, 2)))


def softmax(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    rank = len(net.shape_of(x))
    return net(pick("Softmax", "LogSoftmax"), x, axis=pick(1, -1, rank - 2) if rank > 1 else 0)


def pixels(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    _, channels, height, width = net.shape_of(x)
    if pick(True, False):
        size = pick(2, 3)
        if channels % size**2:
            raise Skip("the channels do not divide")
        return net("DepthToSpace", x, blocksize=size, mode=pick("DCR", "CRD"))
    if height % 2 or width % 2:
        raise Skip("the image does not divide")
    return net("SpaceToDepth", x, blocksize=2)


def pixel_shuffle(net: RandomNet, pick: Choices) -> str:
    """A convolution and PyTorch's pixel shuffle behind it."""
    x = net.pick(pick)
    outputs = pick(3, 8, 1)
    wide = net("Conv", x, net.weight(outputs * 4, net.shape_of(x)[1], 3, 3), pads=[1] * 4)
    return net("DepthToSpace", wide, blocksize=2, mode=pick("CRD", "DCR"))


def expand(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    if pick(True, False):
        return net("Tile", x, net.integers(*(pick(1, 2) for _ in shape)))
    return net(
        "Expand", x, net.integers(*(pick(extent, 3) if extent == 1 else 1 for extent in shape))
    )


def where(net: RandomNet, pick: Choices) -> str:
    """The condition is rounded: both sides are equal where it changes."""
    x = net.pick(pick, rank=None)
    mask = net(pick("Greater", "LessOrEqual"), x, net.constant(0.1))
    above = net("Sub", x, net.constant(0.1))
    other = pick(net.constant(0.5), net.pick(pick, len(net.shape_of(x)), net.shape_of(x)))
    scaled = net("Mul", above, other)
    return net("Where", mask, *pick((above, scaled), (scaled, above)))


def einsum(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    weight = net.weight(12, net.shape_of(x)[1])
    return net("Einsum", x, weight, equation=pick("nchw,kc->nkhw", "nchw,kc->nhwk"))


def broadcast(net: RandomNet, pick: Choices) -> str:
    """Two activations of different extents."""
    x = net.pick(pick)
    axes = pick((2, 3), (1,), (3,))
    small = net("ReduceMean", x, net.integers(*axes), keepdims=1)
    return net(pick("Add", "Mul", "Sub"), *pick((x, small), (small, x)))


def ordered(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    rank = len(net.shape_of(x))
    if not rank:
        raise Skip("a scalar has no order")
    axis = pick(rank - 1, min(1, rank - 1))
    if pick(True, False):
        return net("CumSum", x, net.constant(axis, "int64"))
    count = pick(1, 2)
    if net.shape_of(x)[axis] < count:
        raise Skip("too few")
    return net.several(2, "TopK", x, net.integers(count), axis=axis)[0]


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
    "batch norm": batch_norm,
    "norm": norm,
    "activation": activation,
    "second activation": second_activation,
    "composed activation": composed_activation,
    "add": add,
    "residual": residual,
    "with constant": with_constant,
    "concat": concat,
    "inception": inception,
    "split": split,
    "slice": slice_,
    "gather": gather,
    "shuffle": shuffle,
    "gate": gate,
    "resize": resize,
    "pad": pad,
    "reduce": reduce,
    "dense": dense,
    "tokens": tokens,
    "attention": attention,
    "nhwc": nhwc,
    "transpose": transpose,
    "reshape": reshape,
    "squeeze": squeeze,
    "softmax": softmax,
    "pixels": pixels,
    "pixel shuffle": pixel_shuffle,
    "expand": expand,
    "where": where,
    "einsum": einsum,
    "broadcast": broadcast,
    "ordered": ordered,
}
# Convolutions are what plans are about.
WEIGHTED = (*KINDS, *("conv", "plain conv", "depthwise", "plain conv") * 3, "batch norm", "concat")


def written(sketch: Sketch) -> onnx.ModelProto:
    """The network; layers that do not fit are left out."""
    net = RandomNet(sketch.shape)
    for layer in sketch.layers:
        before = len(net.nodes)
        try:
            net.maps.append(KINDS[layer.kind](net, Choices(layer.numbers)))
        except Skip:
            del net.nodes[before:]
    if not net.nodes:
        net.maps.append(net("Relu", "data"))
    return net.model(sketch.outputs)
