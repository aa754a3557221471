"""What the cells of NASNet and PNASNet are made of, sizes kept by symmetric padding."""

from __future__ import annotations

from dataclasses import dataclass

from .builder import GraphBuilder, Tensor
from .movement import shift_by_one

EPSILON = 1e-3
# Of a result that joins another: a cell adds two of them.
GAIN = 0.7


@dataclass(frozen=True)
class Size:
    """Filters of the stem and of the first stage's cells, and cells in each of three stages."""

    stem: int
    filters: int
    cells: int


def norm(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    return g.batch_norm(x, f"{name}.norm", GAIN, EPSILON)


def pointwise(g: GraphBuilder, x: Tensor, name: str, width: int, stride: int = 1) -> Tensor:
    """ReLU, 1x1, batch norm."""
    x = g.relu(x, f"{name}.relu")
    return norm(g, g.conv(x, f"{name}.conv", width, 1, stride), name)


def separable(
    g: GraphBuilder,
    x: Tensor,
    name: str,
    kernel: int,
    stride: int = 1,
    width: int | None = None,
) -> Tensor:
    """ReLU, depthwise, 1x1, batch norm, twice; the first has the stride and the new width."""
    width = width or x.channels
    for number, step in enumerate((stride, 1), start=1):
        part = f"{name}.{number}"
        x = g.relu(x, f"{part}.relu")
        padding = kernel // 2
        x = g.conv(x, f"{part}.depthwise", x.channels, kernel, step, padding, x.channels)
        x = norm(g, g.conv(x, f"{part}.pointwise", width, 1), part)
    return x


def factorised_reduction(g: GraphBuilder, x: Tensor, name: str, width: int) -> Tensor:
    """Half the image: half of the channels from its even pixels, half from its odd ones."""
    x = g.relu(x, f"{name}.relu")
    # The papers' code averages over one pixel at stride 2, then has a 1x1 convolution. One with the
    # stride is the same; ONNX Runtime refuses the pool, into which it moves the padding.
    images = x, shift_by_one(g, x, f"{name}.shift")
    widths = width // 2, width - width // 2
    halves = [
        g.conv(image, f"{name}.conv{number}", share, 1, stride=2)
        for number, (image, share) in enumerate(zip(images, widths, strict=True))
    ]
    return norm(g, g.concat(halves, f"{name}.concat"), name)


def max_pool(g: GraphBuilder, x: Tensor, name: str, stride: int = 1) -> Tensor:
    return g.max_pool(x, name, 3, stride, padding=1)


def average_pool(g: GraphBuilder, x: Tensor, name: str, stride: int = 1) -> Tensor:
    return g.average_pool(x, name, 3, stride, padding=1, count_padding=False)
