"""MobileNetV1, width 1.0 (Howard et al. 2017, "MobileNets", table 1)."""

from __future__ import annotations

from ..blocks import conv_norm, pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..network import Network

# Output channels and stride of each depthwise-separable layer.
LAYERS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "conv0", 32, 3, stride=2)
    for number, (width, stride) in enumerate(LAYERS, start=1):
        x = conv_norm(g, x, f"conv{number}.depthwise", x.channels, 3, stride, groups=x.channels)
        x = conv_norm(g, x, f"conv{number}.pointwise", width, 1)
    return pooled_classifier(g, x, "fc")


MOBILENET_V1 = Network(
    name="mobilenet_v1",
    description="MobileNetV1, width 1.0 (Howard et al. 2017)",
    body=_body,
)
