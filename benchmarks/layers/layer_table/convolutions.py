"""Convolutions of every kind: plain, grouped, transposed, of sequences and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import helper

from .layer import Layer, Shape, normal, times


def conv(
    inputs: int,
    size: int | Shape,
    outputs: int,
    kernel: int | Shape,
    stride: int | Shape = 1,
    groups: int = 1,
    dilation: int = 1,
    batch: int = 1,
) -> Layer:
    """A convolution with bias, padded so that stride 1 keeps the size.

    ``size``: one number for a square image, or the extents of a sequence, an image or a volume.
    """
    extents = (size, size) if isinstance(size, int) else size
    taps = (kernel,) * len(extents) if isinstance(kernel, int) else kernel
    steps = (stride,) * len(extents) if isinstance(stride, int) else stride
    kind = " depthwise" if groups == inputs > 1 else f" g{groups}" if groups > 1 else ""
    kind += f" d{dilation}" if dilation > 1 else ""
    start = f"conv{'' if len(extents) == 2 else f'{len(extents)}d'} "
    start += f"{batch}x" if batch > 1 else ""
    step = times(steps) if len(set(steps)) > 1 else str(steps[0])
    name = f"{start}{inputs}x{times(extents)}->{outputs} {times(taps)} s{step}{kind}"
    attributes = {
        "kernel_shape": taps,
        "strides": steps,
        "pads": [dilation * (tap - 1) // 2 for tap in taps] * 2,
        "dilations": [dilation] * len(extents),
        "group": groups,
    }
    constants = (normal(outputs, inputs // groups, *taps), normal(outputs))
    return Layer(name, "Conv", ((batch, inputs, *extents),), constants, attributes=attributes)


def conv_transpose(
    inputs: int,
    size: int | Shape,
    outputs: int,
    kernel: int,
    stride: int,
    pad: int = 0,
    groups: int = 1,
    **attributes: Any,
) -> Layer:
    extents = (size, size) if isinstance(size, int) else size
    sides = len(extents)
    told = {"kernel_shape": [kernel] * sides, "strides": [stride] * sides, "group": groups}
    name = f"ConvTranspose {inputs}x{times(extents)}->{outputs} {times([kernel] * sides)} s{stride}"
    name += " depthwise" if groups > 1 else ""
    constants = (normal(inputs, outputs // groups, *[kernel] * sides), normal(outputs))
    told |= {"pads": [pad] * (2 * sides), **attributes}
    return Layer(name, "ConvTranspose", ((1, inputs, *extents),), constants, attributes=told)


def convolutions() -> Iterator[Layer]:
    yield conv(3, 224, 64, 7, 2)
    yield conv(3, 224, 32, 3, 2)
    yield conv(3, 224, 24, 3, 2)
    yield conv(3, 224, 64, 3)
    yield conv(3, 227, 96, 11, 4)
    yield conv(3, 224, 96, 4, 4)
    yield conv(3, 224, 384, 16, 16)
    yield conv(1, 28, 32, 5)
    yield conv(64, 56, 64, 1)
    yield conv(64, 56, 64, 3)
    yield conv(128, 56, 128, 3, 2)
    yield conv(256, 14, 256, 3)
    yield conv(512, 14, 512, 3, 2)
    yield conv(512, 7, 512, 3)
    yield conv(256, 14, 1024, 1)
    yield conv(1024, 14, 256, 1)
    yield conv(512, 28, 1024, 1, 2)
    yield conv(16, 55, 64, 1)  # SqueezeNet's
    yield conv(64, 55, 16, 1)
    yield conv(96, 54, 16, 1)
    yield conv(32, 27, 128, 1)
    yield conv(16, 55, 64, 3)
    yield conv(48, 13, 192, 1)
    yield conv(512, 13, 1000, 1)
    yield conv(17, 57, 33, 1)
    yield conv(17, 57, 33, 3)
    yield conv(67, 26, 67, 3)
    yield conv(24, 56, 144, 1)
    yield conv(144, 56, 24, 1)
    yield conv(255, 13, 255, 1)
    yield conv(192, 17, 192, 5)
    yield conv(192, 17, 192, (1, 7))
    yield conv(192, 17, 192, (7, 1))
    yield conv(64, 35, 96, 5)
    yield conv(128, 28, 32, 3)  # DenseNet's
    yield conv(24, 80, 24, 3)
    yield conv(256, 28, 256, 3, dilation=2)
    yield conv(256, 33, 256, 3, dilation=12)
    yield conv(64, 14, 64, 3, batch=4)
    yield conv(96, 1, 4, 1)  # squeeze-excite
    yield conv(4, 1, 96, 1)
    yield conv(1152, 1, 48, 1)
    yield conv(48, 1, 1152, 1)


def grouped_convolutions() -> Iterator[Layer]:
    yield conv(32, 112, 32, 3, 1, 32)
    yield conv(144, 56, 144, 3, 2, 144)
    yield conv(576, 14, 576, 3, 1, 576)
    yield conv(22, 56, 22, 3, 1, 22)
    yield conv(44, 28, 44, 5, 1, 44)
    yield conv(96, 56, 96, 5, 2, 96)
    yield conv(17, 57, 17, 3, 1, 17)
    yield conv(960, 7, 960, 5, 1, 960)
    yield conv(96, 56, 96, 7, 1, 96)
    yield conv(384, 14, 384, 7, 1, 384)
    yield conv(192, 28, 192, 3, 1, 192, dilation=2)
    yield conv(32, 56, 64, 3, 1, 32)  # two filters a channel
    yield conv(256, 28, 256, 3, 1, 32)
    yield conv(128, 56, 128, 3, 1, 32)
    yield conv(1024, 7, 1024, 3, 1, 32)
    yield conv(104, 28, 104, 3, 1, 13)
    yield conv(96, 27, 256, 5, 1, 2)
    yield conv(240, 28, 60, 1, 1, 3)  # ShuffleNet's
    yield conv(72, 28, 72, 3, 2, 9)


def other_convolutions() -> Iterator[Layer]:
    """Transposed, deformable, of sequences and volumes, with computed weights."""
    yield conv_transpose(64, 28, 32, 2, 2)
    yield conv_transpose(64, 28, 32, 4, 2, 1)
    yield conv_transpose(64, 28, 32, 3, 2, 1, output_padding=[1, 1])
    yield conv_transpose(64, 28, 32, 3, 1, 1)
    yield conv_transpose(256, 8, 128, 5, 2, 2, output_padding=[1, 1])
    yield conv_transpose(21, 28, 21, 16, 8, 4)
    yield conv_transpose(21, 28, 21, 4, 2, 1, groups=21)
    yield conv_transpose(128, (200,), 64, 16, 8, 4)
    yield conv_transpose(32, (8, 14, 14), 16, 2, 2)
    yield conv(64, (400,), 128, 3)
    yield conv(1, (16000,), 64, 80, 4)
    yield conv(256, (1000,), 256, 1)
    yield conv(256, (400,), 256, 31, 1, 256)
    yield conv(64, (1000,), 64, 3, dilation=4)
    yield conv(16, (8, 28, 28), 32, 3)
    yield conv(3, (8, 56, 56), 32, (3, 7, 7), (1, 2, 2))
    yield conv(64, (8, 14, 14), 64, 3)
    yield conv(64, (8, 14, 14), 128, 1)
    yield conv(64, (8, 14, 14), 128, 3, 2)
    yield conv(54, (8, 14, 14), 54, 3, 1, 54)
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield Layer(
        "DeformConv 64x28x28->64 3x3",
        "DeformConv",
        ((1, 64, 28, 28),),
        (normal(64, 64, 3, 3), np.tile(normal(1, 18, 1, 1), (1, 1, 28, 28)) * 4, normal(64)),
        attributes=pads,
        opset=19,
    )
    # StyleGAN's modulated convolution and CondConv's: the weights are inputs.
    weights = ((1, 64, 32, 32), (64, 64, 3, 3))
    yield Layer("Conv 64x32x32->64 3x3, computed weights", "Conv", weights, attributes=pads)
    weights = ((1, 256, 16, 16), (256, 64, 3, 3))
    pads = {**pads, "group": 4}
    yield Layer("Conv 256x16x16->256 3x3 g4, computed weights", "Conv", weights, attributes=pads)
    weights = ((1, 80, 68, 100), (80, 10, 1, 1))  # CondInst's heads of 8 objects
    attributes = {"group": 8}
    name = "Conv 80x68x100->80 1x1 g8, computed weights"
    yield Layer(name, "Conv", weights, attributes=attributes)
    yield squeeze_excite(67, 26, 16)
    yield squeeze_excite(96, 56, 4)
    yield squeeze_excite(672, 14, 28)


def squeeze_excite(channels: int, size: int, squeezed: int) -> Layer:
    """A gate: global average, two 1x1 layers, a sigmoid, a product with the image."""
    return Layer(
        f"Squeeze-excite {channels}x{size}x{size} by {squeezed}",
        "",
        ((1, channels, size, size),),
        (
            normal(squeezed, channels, 1, 1),
            normal(squeezed),
            normal(channels, squeezed, 1, 1),
            normal(channels),
        ),
        nodes=(
            helper.make_node("GlobalAveragePool", ["x0"], ["mean"]),
            helper.make_node("Conv", ["mean", "c0", "c1"], ["small"]),
            helper.make_node("Relu", ["small"], ["positive"]),
            helper.make_node("Conv", ["positive", "c2", "c3"], ["wide"]),
            helper.make_node("Sigmoid", ["wide"], ["gate"]),
            helper.make_node("Mul", ["x0", "gate"], ["y0"]),
        ),
    )
