"""VGG without batch norm.

Simonyan and Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale Image Recognition",
table 1.
"""

from __future__ import annotations

from functools import partial

from ..builder import GraphBuilder, Tensor
from ..network import Network

# Convolutions in each of the five stages.
STAGES = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
WIDTHS = (64, 128, 256, 512, 512)


def vgg(depth: int) -> Network:
    """VGG of that many weighted layers: the paper's configurations A, B, D and E."""
    return Network(
        name=f"vgg{depth}",
        description=f"VGG-{depth}, no batch norm (Simonyan and Zisserman 2014)",
        body=partial(_body, depth),
    )


def _body(depth: int, g: GraphBuilder, x: Tensor) -> Tensor:
    for stage, (layers, width) in enumerate(zip(STAGES[depth], WIDTHS, strict=True), start=1):
        for layer in range(1, layers + 1):
            name = f"{stage}_{layer}"
            x = g.conv(x, f"conv{name}", width, 3, padding=1, bias=True)
            x = g.relu(x, f"relu{name}")
        x = g.max_pool(x, f"pool{stage}", 2, 2)
    x = g.flatten(x, "flatten")
    x = g.relu(g.gemm(x, "fc6", 4096), "relu6")
    x = g.relu(g.gemm(x, "fc7", 4096), "relu7")
    return g.gemm(x, "fc8", 1000)
