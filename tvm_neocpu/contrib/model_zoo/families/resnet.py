"""ResNet v1.5 and ResNeXt.

He et al. 2015, "Deep Residual Learning for Image Recognition", table 1. The paper puts the stride
of a bottleneck on its first 1x1 convolution; v1.5, which everybody runs, puts it on the 3x3.
ResNeXt: Xie et al. 2016, "Aggregated Residual Transformations for Deep Neural Networks", table 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt

from ..builder import GraphBuilder, Tensor
from ..network import Network

# Blocks in each of the four stages.
BASIC_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
BOTTLENECK_STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
WIDTHS = (64, 128, 256, 512)
BOTTLENECK_EXPANSION = 4


@dataclass(frozen=True)
class Block:
    """One residual block; `gain` is the size of its branch for a shortcut of size 1.

    `width` is that of its 3x3 convolution, `filters` that of its output.
    """

    name: str
    width: int
    filters: int
    stride: int
    gain: float
    groups: int = 1
    dilation: int = 1


@dataclass(frozen=True)
class Variant:
    """What differs between the nets of the family beside depth.

    `dilations` are those of the four stages: a stage with one above 1 keeps its input's size.
    `group_width` is the width of a group for each 64 of the paper's width.
    """

    groups: int = 1
    group_width: int = 64
    dilations: tuple[int, int, int, int] = (1, 1, 1, 1)


PLAIN = Variant()


def resnet(depth: int) -> Network:
    """ResNet of that many weighted layers: 18, 34, 50, 101 or 152."""
    return Network(
        name=f"resnet{depth}",
        description=f"ResNet-{depth} v1.5 (He et al. 2015)",
        body=partial(_body, depth),
    )


def resnext50() -> Network:
    """ResNeXt-50 of 32 groups, each 4 wide."""
    return Network(
        name="resnext50_32x4d",
        description="ResNeXt-50, 32 groups of 4 (Xie et al. 2016)",
        body=partial(_body, 50, variant=Variant(groups=32, group_width=4)),
    )


def stages(g: GraphBuilder, x: Tensor, depth: int, variant: Variant) -> list[Tensor]:
    """The outputs of the four stages: the backbone of detectors and of segmentation."""
    add_block = _basic if depth in BASIC_STAGES else _bottleneck
    expansion = 1 if depth in BASIC_STAGES else BOTTLENECK_EXPANSION
    x = g.relu(g.batch_norm(g.conv(x, "conv1", 64, 7, stride=2, padding=3), "bn1"), "relu")
    x = g.max_pool(x, "maxpool", 3, 2, padding=1)
    outputs = []
    before = 1
    counts = (BASIC_STAGES | BOTTLENECK_STAGES)[depth]
    table = zip(counts, WIDTHS, variant.dilations, strict=True)
    for stage, (blocks, filters, dilation) in enumerate(table, start=1):
        for index in range(blocks):
            first = index == 0
            block = Block(
                name=f"layer{stage}.{index}",
                width=filters * variant.group_width * variant.groups // 64,
                filters=filters * expansion,
                stride=2 if stage > 1 and first and dilation == 1 else 1,
                # The branches of a stage together are as large as its shortcut, for any number.
                gain=1 / sqrt(blocks),
                groups=variant.groups,
                dilation=before if first else dilation,
            )
            x = add_block(g, x, block)
        before = dilation
        outputs.append(x)
    return outputs


def _body(depth: int, g: GraphBuilder, x: Tensor, variant: Variant = PLAIN) -> Tensor:
    x = stages(g, x, depth, variant)[-1]
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
    """1x1 down, 3x3 with the stride, 1x1 up."""
    name, width, gap = block.name, block.width, block.dilation
    y = g.conv(x, f"{name}.conv1", width, 1)
    y = g.relu(g.batch_norm(y, f"{name}.bn1"), f"{name}.relu1")
    y = g.conv(y, f"{name}.conv2", width, 3, block.stride, gap, block.groups, dilation=gap)
    y = g.relu(g.batch_norm(y, f"{name}.bn2"), f"{name}.relu2")
    y = g.conv(y, f"{name}.conv3", block.filters, 1)
    y = g.batch_norm(y, f"{name}.bn3", gain=block.gain)
    return _join(g, x, y, block)


def _join(g: GraphBuilder, x: Tensor, y: Tensor, block: Block) -> Tensor:
    """The branch `y` added to the shortcut from `x`, which is projected where the shapes differ."""
    name = block.name
    if x.shape != y.shape:
        x = g.conv(x, f"{name}.downsample.0", y.channels, 1, stride=block.stride)
        x = g.batch_norm(x, f"{name}.downsample.1")
    return g.relu(g.add(x, y, f"{name}.add"), f"{name}.relu")
