"""MobileNetV3 (Howard et al. 2019, "Searching for MobileNetV3", tables 1 and 2)."""

from __future__ import annotations

from functools import partial

from ..activations import hard_sigmoid, hard_swish
from ..blocks import conv_norm, relu
from ..builder import GraphBuilder, Tensor
from ..inverted import Inverted, inverted
from ..network import Network

Row = tuple[int, int, int, bool, bool, int]

# Kernel, expanded channels, output channels, squeeze-excite, hard swish, stride.
LARGE: tuple[Row, ...] = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)
SMALL: tuple[Row, ...] = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)
EPSILON = 1e-3
# Of a block's branch beside its shortcut: stages have three blocks on average.
BRANCH_GAIN = 0.6


def _body(rows: tuple[Row, ...], last: int, features: int, g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "features.0", 16, 3, 2, act=hard_swish, epsilon=EPSILON)
    for number, (kernel, hidden, width, squeezes, swishes, stride) in enumerate(rows, start=1):
        block = Inverted(
            name=f"features.{number}",
            hidden=hidden,
            width=width,
            kernel=kernel,
            stride=stride,
            gain=BRANCH_GAIN,
            squeezed=_divisible_by_8(hidden // 4) if squeezes else 0,
            act=hard_swish if swishes else relu,
            gate=hard_sigmoid,
            epsilon=EPSILON,
        )
        x = inverted(g, x, block)
    x = conv_norm(g, x, "features.last", last, 1, act=hard_swish, epsilon=EPSILON)
    x = g.flatten(g.global_average_pool(x, "avgpool"), "flatten")
    x = hard_swish(g, g.gemm(x, "classifier.0", features), "classifier.act")
    return g.gemm(x, "classifier.1", 1000)


def _divisible_by_8(channels: int) -> int:
    """The nearest multiple of 8, the next one where that takes away more than a tenth."""
    near = max(8, (channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


MOBILENET_V3_LARGE = Network(
    name="mobilenet_v3_large",
    description="MobileNetV3-Large, width 1.0 (Howard et al. 2019)",
    body=partial(_body, LARGE, 960, 1280),
)
MOBILENET_V3_SMALL = Network(
    name="mobilenet_v3_small",
    description="MobileNetV3-Small, width 1.0 (Howard et al. 2019)",
    body=partial(_body, SMALL, 576, 1024),
)
