"""MobileNetV2, width 1.0.

Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2.
"""

from __future__ import annotations

from math import sqrt

from ..builder import GraphBuilder, Tensor
from ..network import Network

# Expansion, output channels, blocks, stride of the first block.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = _conv_bn_relu6(g, x, "features.0", 32, 3, stride=2)
    number = 1
    for expansion, width, blocks, first_stride in STAGES:
        for index in range(blocks):
            stride = first_stride if index == 0 else 1
            gain = 1.0 if index == 0 else 1 / sqrt(blocks)
            x = _inverted_residual(g, x, f"features.{number}", expansion, width, stride, gain)
            number += 1
    x = _conv_bn_relu6(g, x, f"features.{number}", 1280, 1)
    x = g.flatten(g.global_average_pool(x, "avgpool"), "flatten")
    return g.gemm(x, "classifier", 1000)


def _inverted_residual(
    g: GraphBuilder,
    x: Tensor,
    name: str,
    expansion: int,
    width: int,
    stride: int,
    gain: float,
) -> Tensor:
    """1x1 up, 3x3 depthwise, linear 1x1 down; plus its input if the shapes are the same."""
    hidden = x.channels * expansion
    y = x if expansion == 1 else _conv_bn_relu6(g, x, f"{name}.expand", hidden, 1)
    y = _conv_bn_relu6(g, y, f"{name}.depthwise", hidden, 3, stride=stride, groups=hidden)
    y = g.conv(y, f"{name}.project.conv", width, 1)
    y = g.batch_norm(y, f"{name}.project.bn", gain=gain)
    if x.shape != y.shape:
        return y
    return g.add(x, y, f"{name}.add")


def _conv_bn_relu6(
    g: GraphBuilder,
    x: Tensor,
    name: str,
    filters: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
) -> Tensor:
    padding = kernel // 2
    x = g.conv(x, f"{name}.conv", filters, kernel, stride=stride, padding=padding, groups=groups)
    return g.relu6(g.batch_norm(x, f"{name}.bn"), f"{name}.relu6")


MOBILENET_V2 = Network(
    name="mobilenet_v2",
    description="MobileNetV2, width 1.0 (Sandler et al. 2018)",
    body=_body,
)
