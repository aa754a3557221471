"""DenseNet-BC (Huang et al. 2016, "Densely Connected Convolutional Networks", table 1)."""

from __future__ import annotations

from functools import partial

from .builder import GraphBuilder, Tensor
from .network import Network

# Layers in each of the four dense blocks.
BLOCKS = {121: (6, 12, 24, 16)}
GROWTH = 32
STEM_WIDTH = 64
BOTTLENECK_WIDTH = 4 * GROWTH


def densenet(depth: int) -> Network:
    """DenseNet-BC of that many weighted layers, growth rate 32."""
    return Network(
        name=f"densenet{depth}",
        description=f"DenseNet-{depth}, growth 32 (Huang et al. 2016)",
        body=partial(_body, depth),
    )


def _body(depth: int, g: GraphBuilder, x: Tensor) -> Tensor:
    x = g.conv(x, "conv0", STEM_WIDTH, 7, stride=2, padding=3)
    x = g.relu(g.batch_norm(x, "norm0"), "relu0")
    x = g.max_pool(x, "pool0", 3, 2, padding=1)
    blocks = BLOCKS[depth]
    for block, layers in enumerate(blocks, start=1):
        for layer in range(1, layers + 1):
            x = _dense_layer(g, x, f"denseblock{block}.denselayer{layer}")
        if block < len(blocks):
            x = _transition(g, x, f"transition{block}")
    x = g.relu(g.batch_norm(x, "norm5"), "relu5")
    x = g.flatten(g.global_average_pool(x, "avgpool"), "flatten")
    return g.gemm(x, "classifier", 1000)


def _dense_layer(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """32 new channels from all channels so far, appended to them."""
    y = g.relu(g.batch_norm(x, f"{name}.norm1"), f"{name}.relu1")
    y = g.conv(y, f"{name}.conv1", BOTTLENECK_WIDTH, 1)
    y = g.relu(g.batch_norm(y, f"{name}.norm2"), f"{name}.relu2")
    y = g.conv(y, f"{name}.conv2", GROWTH, 3, padding=1)
    return g.concat([x, y], f"{name}.concat")


def _transition(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """Half the channels, half the height and width."""
    y = g.relu(g.batch_norm(x, f"{name}.norm"), f"{name}.relu")
    y = g.conv(y, f"{name}.conv", x.channels // 2, 1)
    return g.average_pool(y, f"{name}.pool", 2, 2)
