"""Layers that read an image at places: grids, regions, offsets, the places of maxima."""

from __future__ import annotations

import math

import numpy as np
from random_onnx import Choices, RandomNet, Skip

from layer_kinds.layer import Write, factors


def grid_sample(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, channels, *image = net.shape_of(x)
    mode = pick("linear", "nearest", "cubic")
    attributes = {
        "mode": mode,
        "padding_mode": pick("zeros", "border", "reflection"),
        "align_corners": pick(0, 1),
    }
    reflects = attributes["padding_mode"] == "reflection" and attributes["align_corners"]
    if reflects and min(image) == 1:
        raise Skip("a reflection between two borders in one place")
    reach = pick(0.9, 1.3, 3.0)
    rows, columns = pick(6, 1, 9), pick(7, 1, 4)
    form = pick("values", "computed", "affine")
    if form == "computed" and mode != "nearest":
        two = net("Conv", x, net.weight(2, channels, 1, 1))
        grid = net("Transpose", net("Tanh", two), perm=[0, 2, 3, 1])
        grid = net("Mul", grid, net.constant(reach))
    elif form == "affine":
        turn = net.constant([[[0.8, -0.3, 0.1], [0.25, 0.9, -0.2]]] * batch)
        size = net.integers(batch, channels, rows, columns)
        # Engines disagree on where the corner of one pixel is.
        align = pick(0, 1) if min(rows, columns) > 1 else 0
        grid = net("AffineGrid", turn, size, align_corners=align)
    else:
        grid = net.uniform(-reach, reach, batch, rows, columns, 2)
    return net("GridSample", x, grid, **attributes)


def _regions(net: RandomNet, pick: Choices, count: int, height: int, width: int) -> np.ndarray:
    """Corners x1, y1, x2, y2 in an image; a few reach outside, a few are tiny."""
    reach = pick(1.0, 1.4, 0.1)
    starts = net.rng.uniform(-0.1 * (reach > 1), 0.6, (count, 2))
    ends = starts + net.rng.uniform(0.1, 0.8, (count, 2)) * reach
    return np.concatenate([starts, ends], 1) * [width, height, width, height]


def roi_align(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, _, height, width = net.shape_of(x)
    count, scale = pick(3, 1, 5), pick(1.0, 0.5, 0.25)
    rois = net.constant(_regions(net, pick, count, height, width) / scale)
    if pick(True, False):
        nothing = net("Mul", net("ReduceMax", x, keepdims=0), net.constant(0.0))
        rois = net("Add", rois, nothing)
    images = net.integers(*(place % batch for place in range(count)))
    return net(
        "RoiAlign",
        x,
        rois,
        images,
        mode=pick("avg", "max"),
        output_height=pick(2, 1, 5),
        output_width=pick(3, 1, 4),
        sampling_ratio=pick(0, 2, 1, 3),
        spatial_scale=scale,
        coordinate_transformation_mode=pick("half_pixel", "output_half_pixel"),
    )


def max_roi_pool(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, _, height, width = net.shape_of(x)
    count, scale = pick(3, 1, 5), pick(1.0, 0.5)
    corners = _regions(net, pick, count, height, width) / scale
    images = np.arange(count)[:, None] % batch
    rois = net.constant(np.concatenate([images, corners], 1))
    return net(
        "MaxRoiPool", x, rois, pooled_shape=pick((2, 3), (1, 1), (5, 2)), spatial_scale=scale
    )


def deform_conv(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    kernel = pick((3, 3), (1, 1), (2, 3))
    outputs = pick(8, 3, 16, 17)
    groups = pick(*factors(math.gcd(channels, outputs))[:3])
    offset_groups = pick(*factors(channels)[:3])
    strides, dilations = pick((1, 1), (2, 2), (1, 2)), pick((1, 1), (2, 1))
    pads = pick([1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 2, 1])
    image = [
        (size + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1)
        // strides[axis]
        + 1
        for axis, size in enumerate((height, width))
    ]
    if min(image) < 1:
        raise Skip("the window is larger than the image")
    taps = offset_groups * kernel[0] * kernel[1]
    offsets = net.uniform(-1.5, 1.5, batch, 2 * taps, *image)
    if image == [height, width] and pick(True, False):
        offsets = net("Conv", x, net.weight(2 * taps, channels, 1, 1))
    weight = net.weight(outputs, channels // groups, *kernel)
    optional = [net.weight(outputs) if pick(True, False) else ""]
    if pick(False, True):
        optional.append(net.uniform(0, 1, batch, taps, *image))
    while optional and not optional[-1]:
        optional.pop()
    return net(
        "DeformConv",
        x,
        weight,
        offsets,
        *optional,
        group=groups,
        offset_group=offset_groups,
        pads=pads,
        strides=strides,
        dilations=dilations,
        kernel_shape=kernel,
    )


def max_unpool(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    *_, height, width = net.shape_of(x)
    kernel = pick((2, 2), (1, 2), (3, 3))
    if height < kernel[0] or width < kernel[1]:
        raise Skip("the window is larger than the image")
    strides = kernel if pick(True, False) else (2, 2)
    window = {"kernel_shape": kernel, "strides": strides, "pads": pick([0] * 4, [0, 0, 1, 1])}
    if any(pad >= size for pad, size in zip(window["pads"][2:], kernel, strict=True)):
        raise Skip("a window of padding")
    values, places = net.several(2, "MaxPool", x, **window)
    if pick(True, False):
        values = net(pick("Relu", "Neg"), values)
    size = [net.integers(*net.shape_of(x))] if pick(True, False) else []
    return net("MaxUnpool", values, places, *size, **window)


def col2im(net: RandomNet, pick: Choices) -> str:
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    if channels % 4:
        raise Skip("the channels do not divide")
    rows = net("Reshape", x, net.integers(batch, channels, height * width))
    image = net.integers(height + 1, width + 1)
    return net("Col2Im", rows, image, net.integers(2, 2))


def crop_and_resize(net: RandomNet, pick: Choices) -> str:
    """To other lengths: ONNX Runtime ignores the region of an axis whose length stays."""
    x = net.pick(pick)
    batch, channels, height, width = net.shape_of(x)
    region = net.constant([0, 0, pick(0.1, -0.2), 0.2, 1, 1, pick(0.8, 1.2), 0.9])
    sizes = net.integers(batch, channels, height + pick(3, 1), width + pick(2, 5))
    return net(
        "Resize",
        x,
        region,
        "",
        sizes,
        mode=pick("linear", "nearest", "cubic"),
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=pick(0.0, 0.5),
    )


KINDS: dict[str, Write] = {
    "grid sample": grid_sample,
    "roi align": roi_align,
    "max roi pool": max_roi_pool,
    "deform conv": deform_conv,
    "max unpool": max_unpool,
    "col2im": col2im,
    "crop and resize": crop_and_resize,
}
