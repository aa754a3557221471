"""Faster R-CNN with ResNet-50 and a feature pyramid, in its two static parts.

Ren et al. 2015, "Faster R-CNN"; Lin et al. 2016, "Feature Pyramid Networks"; built as torchvision's
fasterrcnn_resnet50_fpn, 91 classes.

    image -> [backbone, pyramid, RPN] -> proposals, RoI align -> [box head] -> boxes

What stands between the two networks stays outside, because its shapes depend on the image: the best
proposals of each level are taken and decoded, suppressed (NMS), assigned to a level by their size,
and cut out of it by RoI align at 7x7. The box head takes a fixed number of such cuts. After it the
boxes are decoded and suppressed once more.
"""

from __future__ import annotations

from ..builder import GraphBuilder, Tensor
from ..movement import enlarge
from ..network import Network
from .resnet import PLAIN, stages

WIDTH = 256
ANCHORS = 3
CLASSES = 91
HIDDEN = 1024
ROI = 7


def _proposals(g: GraphBuilder, x: Tensor) -> dict[str, Tensor]:
    """Five levels of the pyramid, each with the RPN's objectness and box offsets."""
    levels = _pyramid(g, stages(g, x, 50, PLAIN))
    outputs = {}
    for number, level in enumerate(levels):
        hidden = _shared_conv(g, level, number, "conv", WIDTH, 3)
        hidden = g.relu(hidden, f"rpn{number}.relu")
        outputs[f"features{number}"] = level
        outputs[f"objectness{number}"] = _shared_conv(g, hidden, number, "cls", ANCHORS, 1)
        outputs[f"offsets{number}"] = _shared_conv(g, hidden, number, "box", 4 * ANCHORS, 1)
    return outputs


def _shared_conv(
    g: GraphBuilder, x: Tensor, level: int, name: str, filters: int, kernel: int
) -> Tensor:
    """A convolution whose weights all levels share."""
    return g.conv(
        x,
        f"rpn{level}.{name}",
        filters,
        kernel,
        padding=kernel // 2,
        bias=True,
        weights_of=f"rpn.{name}",
    )


def _pyramid(g: GraphBuilder, scales: list[Tensor]) -> list[Tensor]:
    """Lateral 1x1, the coarser level enlarged and added, 3x3; and a pool of the coarsest."""
    levels: list[Tensor] = []
    above: Tensor | None = None
    for number, scale in reversed(list(enumerate(scales))):
        lateral = g.conv(scale, f"fpn.inner{number}", WIDTH, 1, bias=True)
        if above is not None:
            image = lateral.image[0], lateral.image[1]
            above = enlarge(g, above, f"fpn.enlarge{number}", image, "nearest")
            lateral = g.add(lateral, above, f"fpn.add{number}")
        above = lateral
        levels.append(g.conv(lateral, f"fpn.layer{number}", WIDTH, 3, padding=1, bias=True))
    levels.reverse()
    levels.append(g.max_pool(levels[-1], "fpn.pool", 1, 2))
    return levels


def _box_head(g: GraphBuilder, x: Tensor) -> dict[str, Tensor]:
    """Two fully connected layers, then the scores and the boxes of each class."""
    x = g.flatten(x, "flatten")
    for number in (6, 7):
        x = g.relu(g.gemm(x, f"fc{number}", HIDDEN), f"relu{number}")
    return {"scores": g.gemm(x, "cls", CLASSES), "boxes": g.gemm(x, "box", 4 * CLASSES)}


FASTER_RCNN_RPN = Network(
    name="faster_rcnn_rpn",
    description="Faster R-CNN: ResNet-50, feature pyramid, RPN (Ren et al. 2015)",
    body=_proposals,
    image=(3, 800, 800),
    classes=None,
)
FASTER_RCNN_BOX_HEAD = Network(
    name="faster_rcnn_box_head",
    description="Faster R-CNN: box head of one RoI, the batch is their number (Ren et al. 2015)",
    body=_box_head,
    image=(WIDTH, ROI, ROI),
    classes=None,
)
