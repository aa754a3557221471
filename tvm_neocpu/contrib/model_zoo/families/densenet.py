"""DenseNet-BC (Huang et al. 2016, "Densely Connected Convolutional Networks", table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..builder import GraphBuilder, Tensor
from ..network import Network


@dataclass(frozen=True)
class Shape:
    """Layers in each of the four dense blocks, channels that each adds, channels of the stem."""

    blocks: tuple[int, int, int, int]
    growth: int = 32
    stem: int = 64


SHAPES = {
    121: Shape((6, 12, 24, 16)),
    161: Shape((6, 12, 36, 24), growth=48, stem=96),
    169: Shape((6, 12, 32, 32)),
    201: Shape((6, 12, 48, 32)),
}


def densenet(depth: int) -> Network:
    """DenseNet-BC of that many weighted layers: 121, 161, 169 or 201."""
    shape = SHAPES[depth]
    return Network(
        name=f"densenet{depth}",
        description=f"DenseNet-{depth}, growth {shape.growth} (Huang et al. 2016)",
        body=partial(_body, shape),
    )


def _body(shape: Shape, g: GraphBuilder, x: Tensor) -> Tensor:
    x = g.conv(x, "conv0", shape.stem, 7, stride=2, padding=3)
    x = g.relu(g.batch_norm(x, "norm0"), "relu0")
    x = g.max_pool(x, "pool0", 3, 2, padding=1)
    for block, layers in enumerate(shape.blocks, start=1):
        for layer in range(1, layers + 1):
            x = _dense_layer(g, x, f"denseblock{block}.denselayer{layer}", shape.growth)
        if block < len(shape.blocks):
            x = _transition(g, x, f"transition{block}")
    x = g.relu(g.batch_norm(x, "norm5"), "relu5")
    x = g.flatten(g.global_average_pool(x, "avgpool"), "flatten")
    return g.gemm(x, "classifier", 1000)


def _dense_layer(g: GraphBuilder, x: Tensor, name: str, growth: int) -> Tensor:
    """`growth` new channels from all channels so far, appended to them."""
    y = g.relu(g.batch_norm(x, f"{name}.norm1"), f"{name}.relu1")
    y = g.conv(y, f"{name}.conv1", 4 * growth, 1)
    y = g.relu(g.batch_norm(y, f"{name}.norm2"), f"{name}.relu2")
    y = g.conv(y, f"{name}.conv2", growth, 3, padding=1)
    return g.concat([x, y], f"{name}.concat")


def _transition(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """Half the channels, half the height and width."""
    y = g.relu(g.batch_norm(x, f"{name}.norm"), f"{name}.relu")
    y = g.conv(y, f"{name}.conv", x.channels // 2, 1)
    return g.average_pool(y, f"{name}.pool", 2, 2)
