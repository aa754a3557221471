"""MnasNet-B1, width 1.0 (Tan et al. 2018, "MnasNet: Platform-Aware Neural Architecture Search")."""

from __future__ import annotations

from math import sqrt

from ..blocks import conv_norm, pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..inverted import Inverted, inverted
from ..network import Network

# Kernel, stride of the first block, expansion, output channels, blocks.
STAGES = (
    (3, 2, 3, 24, 3),
    (5, 2, 3, 40, 3),
    (5, 2, 6, 80, 3),
    (3, 1, 6, 96, 2),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "stem", 32, 3, stride=2)
    x = conv_norm(g, x, "separable.depthwise", 32, 3, groups=32)
    x = conv_norm(g, x, "separable.pointwise", 16, 1, act=None)
    for stage, (kernel, first_stride, expansion, width, blocks) in enumerate(STAGES):
        for index in range(blocks):
            stride = first_stride if index == 0 else 1
            name, hidden = f"stage{stage}.{index}", x.channels * expansion
            x = inverted(g, x, Inverted(name, hidden, width, kernel, stride, 1 / sqrt(blocks)))
    x = conv_norm(g, x, "head", 1280, 1)
    return pooled_classifier(g, x, "classifier")


MNASNET = Network(
    name="mnasnet1_0",
    description="MnasNet-B1, width 1.0 (Tan et al. 2018)",
    body=_body,
)
