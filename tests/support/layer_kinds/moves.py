"""Layers that move elements: parts, paddings, orders and shapes."""

from __future__ import annotations

import math

from random_onnx import Choices, RandomNet, Shape, Skip

from layer_kinds.layer import Write, factors


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


def expand(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick, rank=None)
    shape = net.shape_of(x)
    if pick(True, False):
        return net("Tile", x, net.integers(*(pick(1, 2) for _ in shape)))
    return net(
        "Expand", x, net.integers(*(pick(extent, 3) if extent == 1 else 1 for extent in shape))
    )


KINDS: dict[str, Write] = {
    "concat": concat,
    "split": split,
    "slice": slice_,
    "gather": gather,
    "shuffle": shuffle,
    "resize": resize,
    "pad": pad,
    "nhwc": nhwc,
    "transpose": transpose,
    "reshape": reshape,
    "squeeze": squeeze,
    "pixels": pixels,
    "expand": expand,
}
