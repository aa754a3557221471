"""RegNetY (Radosavovic et al. 2020, "Designing Network Design Spaces", table 2)."""

from __future__ import annotations

from math import sqrt

from ..blocks import conv_norm, pooled_classifier, squeeze_excite
from ..builder import GraphBuilder, Tensor
from ..network import Network

# RegNetY-400MF: width and blocks of each stage, and the width of a group.
STAGES = ((48, 1), (104, 3), (208, 6), (440, 6))
GROUP_WIDTH = 8


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "stem", 32, 3, stride=2)
    for stage, (width, blocks) in enumerate(STAGES, start=1):
        for index in range(blocks):
            stride = 2 if index == 0 else 1
            x = _block(g, x, f"block{stage}.{index}", width, stride, 1 / sqrt(blocks))
    return pooled_classifier(g, x, "fc")


def _block(g: GraphBuilder, x: Tensor, name: str, width: int, stride: int, gain: float) -> Tensor:
    """1x1, grouped 3x3, squeeze-excite, 1x1; squeezed to a quarter of the block's input."""
    y = conv_norm(g, x, f"{name}.a", width, 1)
    y = conv_norm(g, y, f"{name}.b", width, 3, stride, groups=width // GROUP_WIDTH)
    y = squeeze_excite(g, y, f"{name}.se", round(x.channels / 4))
    y = conv_norm(g, y, f"{name}.c", width, 1, act=None, gain=gain)
    if x.shape != y.shape:
        x = conv_norm(g, x, f"{name}.proj", width, 1, stride, act=None)
    return g.relu(g.add(x, y, f"{name}.add"), f"{name}.relu")


REGNET_Y_400MF = Network(
    name="regnet_y_400mf",
    description="RegNetY-400MF (Radosavovic et al. 2020)",
    body=_body,
)
