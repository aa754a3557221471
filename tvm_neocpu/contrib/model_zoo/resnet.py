"""ResNet v1.5.

He et al. 2015, "Deep Residual Learning for Image Recognition", table 1. The paper puts the stride
of a bottleneck on its first 1x1 convolution; v1.5, which everybody runs, puts it on the 3x3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt

from .builder import GraphBuilder, Tensor
from .network import Network

# Blocks in each of the four stages.
BASIC_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
BOTTLENECK_STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
WIDTHS = (64, 128, 256, 512)
BOTTLENECK_EXPANSION = 4


@dataclass(frozen=True)
class Block:
    """One residual block; `gain` is the size of its branch for a shortcut of size 1."""

    name: str
    width: int
    stride: int
    gain: float


def resnet(depth: int) -> Network:
    """ResNet of that many weighted layers: 18, 34, 50, 101 or 152."""
    return Network(
        name=f"resnet{depth}",
        description=f"ResNet-{depth} v1.5 (He et al. 2015)",
        body=partial(_body, depth),
    )


def _body(depth: int, g: GraphBuilder, x: Tensor) -> Tensor:
    add_block = _basic if depth in BASIC_STAGES else _bottleneck
    stages = (BASIC_STAGES | BOTTLENECK_STAGES)[depth]
    x = g.relu(g.batch_norm(g.conv(x, "conv1", 64, 7, stride=2, padding=3), "bn1"), "relu")
    x = g.max_pool(x, "maxpool", 3, 2, padding=1)
    for stage, (blocks, width) in enumerate(zip(stages, WIDTHS, strict=True), start=1):
        for index in range(blocks):
            stride = 2 if stage > 1 and index == 0 else 1
            # The branches of a stage together are as large as its shortcut, for any number.
            block = Block(f"layer{stage}.{index}", width, stride, gain=1 / sqrt(blocks))
            x = add_block(g, x, block)
    x = g.flatten(g.global_average_pool(x, "avgpool"), "flatten")
    return g.gemm(x, "fc", 1000)


def _basic(g: GraphBuilder, x: Tensor, block: Block) -> Tensor:
    """Two 3x3 convolutions."""
    name, width = block.name, block.width
    y = g.conv(x, f"{name}.conv1", width, 3, stride=block.stride, padding=1)
    y = g.relu(g.batch_norm(y, f"{name}.bn1"), f"{name}.relu1")
    y = g.conv(y, f"{name}.conv2", width, 3, padding=1)
    y = g.batch_norm(y, f"{name}.bn2", gain=block.gain)
    return _join(g, x, y, block)


def _bottleneck(g: GraphBuilder, x: Tensor, block: Block) -> Tensor:
    """1x1 down, 3x3 with the stride, 1x1 up to four times the width."""
    name, width = block.name, block.width
    y = g.conv(x, f"{name}.conv1", width, 1)
    y = g.relu(g.batch_norm(y, f"{name}.bn1"), f"{name}.relu1")
    y = g.conv(y, f"{name}.conv2", width, 3, stride=block.stride, padding=1)
    y = g.relu(g.batch_norm(y, f"{name}.bn2"), f"{name}.relu2")
    y = g.conv(y, f"{name}.conv3", width * BOTTLENECK_EXPANSION, 1)
    y = g.batch_norm(y, f"{name}.bn3", gain=block.gain)
    return _join(g, x, y, block)


def _join(g: GraphBuilder, x: Tensor, y: Tensor, block: Block) -> Tensor:
    """The branch `y` added to the shortcut from `x`, which is projected where the shapes differ."""
    name = block.name
    if x.shape != y.shape:
        x = g.conv(x, f"{name}.downsample.0", y.channels, 1, stride=block.stride)
        x = g.batch_norm(x, f"{name}.downsample.1")
    return g.relu(g.add(x, y, f"{name}.add"), f"{name}.relu")
