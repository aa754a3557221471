"""SSD with ResNet-50 for 512x512 images, all heads (Liu et al. 2016, "SSD").

Built as GluonCV's ssd_512_resnet50_v1_voc: six scales, 21 classes, 6132 boxes. The outputs are
class probabilities and box offsets; decoding and non-maximum suppression stay outside, since the
number of boxes that they leave depends on the image.
"""

from __future__ import annotations

from ..blocks import conv_norm
from ..builder import GraphBuilder, Tensor
from ..movement import reshape, transpose
from ..network import Network
from .resnet import PLAIN, stages

CLASSES = 21  # 20 and the background
EXTRA_WIDTHS = (512, 512, 256, 256)
BOXES_A_PIXEL = (4, 6, 6, 6, 4, 4)


def _body(g: GraphBuilder, x: Tensor) -> dict[str, Tensor]:
    scales = stages(g, x, 50, PLAIN)[2:]
    for number, width in enumerate(EXTRA_WIDTHS):
        x = conv_norm(g, scales[-1], f"extra{number}.reduce", width, 1)
        scales.append(conv_norm(g, x, f"extra{number}.expand", width, 3, stride=2))
    scores, offsets = [], []
    for number, (scale, boxes) in enumerate(zip(scales, BOXES_A_PIXEL, strict=True)):
        scores.append(_head(g, scale, f"class{number}", boxes, CLASSES))
        offsets.append(_head(g, scale, f"box{number}", boxes, 4))
    return {
        "scores": g.softmax(g.concat(scores, "class.concat"), "class.softmax"),
        "boxes": g.concat(offsets, "box.concat"),
    }


def _head(g: GraphBuilder, x: Tensor, name: str, boxes: int, values: int) -> Tensor:
    """`values` numbers for each of `boxes` boxes at every pixel: (N, pixels * boxes, values)."""
    y = g.conv(x, name, boxes * values, 3, padding=1, bias=True)
    y = transpose(g, y, f"{name}.nhwc", (0, 2, 3, 1))
    batch, height, width, _ = y.shape
    return reshape(g, y, f"{name}.rows", (batch, height * width * boxes, values))


SSD_RESNET50 = Network(
    name="ssd512_resnet50",
    description="SSD-512 on ResNet-50 v1.5, all heads (Liu et al. 2016)",
    body=_body,
    image=(3, 512, 512),
    classes=None,
)
