"""EfficientNet-B0 (Tan and Le 2019, "EfficientNet: Rethinking Model Scaling", table 1)."""

from __future__ import annotations

from math import sqrt

from ..activations import swish
from ..blocks import conv_norm, pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..inverted import Inverted, inverted
from ..network import Network

# Expansion, kernel, stride of the first block, output channels, blocks.
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "stem", 32, 3, stride=2, act=swish)
    for stage, (expansion, kernel, first_stride, width, blocks) in enumerate(STAGES, start=1):
        for index in range(blocks):
            block = Inverted(
                name=f"stage{stage}.{index}",
                hidden=x.channels * expansion,
                width=width,
                kernel=kernel,
                stride=first_stride if index == 0 else 1,
                gain=1 / sqrt(blocks),
                squeezed=x.channels // 4,
                act=swish,
                squeeze_act=swish,
            )
            x = inverted(g, x, block)
    x = conv_norm(g, x, "head", 1280, 1, act=swish)
    return pooled_classifier(g, x, "classifier")


EFFICIENTNET_B0 = Network(
    name="efficientnet_b0",
    description="EfficientNet-B0 (Tan and Le 2019)",
    body=_body,
)
