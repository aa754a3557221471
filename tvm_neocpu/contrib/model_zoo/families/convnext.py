"""ConvNeXt-Tiny (Liu et al. 2022, "A ConvNet for the 2020s", table 9)."""

from __future__ import annotations

from math import sqrt

from ..activations import gelu
from ..builder import GraphBuilder, Tensor
from ..movement import transpose
from ..network import Network

# Width and blocks of each stage.
STAGES = ((96, 3), (192, 3), (384, 9), (768, 3))
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = g.conv(x, "stem.conv", STAGES[0][0], 4, stride=4, bias=True)
    x = _norm(g, x, "stem.norm")
    for stage, (width, blocks) in enumerate(STAGES):
        if stage:
            x = _norm(g, x, f"down{stage}.norm")
            x = g.conv(x, f"down{stage}.conv", width, 2, stride=2, bias=True)
        for index in range(blocks):
            x = _block(g, x, f"stage{stage}.{index}", 1 / sqrt(blocks))
    x = _norm(g, g.global_average_pool(x, "avgpool"), "norm")
    return g.gemm(g.flatten(x, "flatten"), "classifier", 1000)


def _block(g: GraphBuilder, x: Tensor, name: str, gain: float) -> Tensor:
    """Depthwise 7x7; layer norm and a two-layer perceptron over channels; scale; shortcut."""
    width = x.channels
    y = g.conv(x, f"{name}.depthwise", width, 7, padding=3, groups=width, bias=True)
    y = g.layer_norm(transpose(g, y, f"{name}.to_nhwc", TO_NHWC), f"{name}.norm")
    y = gelu(g, g.dense(y, f"{name}.fc1", 4 * width), f"{name}.gelu")
    y = g.dense(y, f"{name}.fc2", width)
    y = transpose(g, y, f"{name}.to_nchw", TO_NCHW)
    return g.add(x, g.scale(y, f"{name}.scale", gain), f"{name}.add")


def _norm(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """Layer norm over the channels of an image."""
    y = g.layer_norm(transpose(g, x, f"{name}.to_nhwc", TO_NHWC), name)
    return transpose(g, y, f"{name}.to_nchw", TO_NCHW)


CONVNEXT_TINY = Network(
    name="convnext_tiny",
    description="ConvNeXt-Tiny (Liu et al. 2022)",
    body=_body,
)
