"""ShuffleNetV2, width 1.0 (Ma et al. 2018, "ShuffleNet V2: Practical Guidelines", table 5)."""

from __future__ import annotations

from ..blocks import conv_norm, pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..movement import shuffle, take
from ..network import Network

# Output channels and units of each stage.
STAGES = ((116, 4), (232, 8), (464, 4))


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "conv1", 24, 3, stride=2)
    x = g.max_pool(x, "maxpool", 3, 2, padding=1)
    for stage, (width, units) in enumerate(STAGES, start=2):
        for index in range(units):
            unit = _unit if index else _down_unit
            x = unit(g, x, f"stage{stage}.{index}", width // 2)
    x = conv_norm(g, x, "conv5", 1024, 1)
    return pooled_classifier(g, x, "fc")


def _unit(g: GraphBuilder, x: Tensor, name: str, half: int) -> Tensor:
    """Half of the channels pass, half go through a branch; then both are shuffled."""
    kept = take(g, x, f"{name}.kept", 0, half)
    y = take(g, x, f"{name}.branch", half, 2 * half)
    y = _branch(g, y, name, half, stride=1)
    return shuffle(g, g.concat([kept, y], f"{name}.concat"), f"{name}.shuffle", 2)


def _down_unit(g: GraphBuilder, x: Tensor, name: str, half: int) -> Tensor:
    """Both branches read all channels and halve the image."""
    one = conv_norm(g, x, f"{name}.branch1.depthwise", x.channels, 3, 2, x.channels, act=None)
    one = conv_norm(g, one, f"{name}.branch1.pointwise", half, 1)
    y = _branch(g, x, name, half, stride=2)
    return shuffle(g, g.concat([one, y], f"{name}.concat"), f"{name}.shuffle", 2)


def _branch(g: GraphBuilder, x: Tensor, name: str, half: int, stride: int) -> Tensor:
    y = conv_norm(g, x, f"{name}.branch2.in", half, 1)
    y = conv_norm(g, y, f"{name}.branch2.depthwise", half, 3, stride, groups=half, act=None)
    return conv_norm(g, y, f"{name}.branch2.out", half, 1)


SHUFFLENET_V2 = Network(
    name="shufflenet_v2_x1_0",
    description="ShuffleNetV2, width 1.0 (Ma et al. 2018)",
    body=_body,
)
