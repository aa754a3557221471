"""YOLOv2 and Tiny YOLO (Redmon and Farhadi 2016, "YOLO9000: Better, Faster, Stronger").

Layers are those of darknet's yolov2.cfg (COCO) and yolov2-tiny-voc.cfg; the output is the last
convolution's, whose boxes are decoded outside.
"""

from __future__ import annotations

from functools import partial

from ..activations import leaky_relu
from ..blocks import conv_norm
from ..builder import GraphBuilder, Tensor
from ..movement import space_to_depth
from ..network import Network

ANCHORS = 5
COCO, VOC = 80, 20
# Filters and kernel of each convolution; "M" is a max pool that halves the image.
DARKNET19 = "32x3 M 64x3 M 128x3 64x1 128x3 M 256x3 128x1 256x3 M 512x3 256x1 512x3 256x1 512x3"
DEEP = "M 1024x3 512x1 1024x3 512x1 1024x3 1024x3 1024x3"
TINY = "16x3 M 32x3 M 64x3 M 128x3 M 256x3 M 512x3"
_conv = partial(conv_norm, act=leaky_relu)


def _yolov2(g: GraphBuilder, x: Tensor) -> Tensor:
    fine = _layers(g, x, "early", DARKNET19)
    x = _layers(g, fine, "late", DEEP)
    passed = space_to_depth(g, _conv(g, fine, "passthrough", 64, 1), "reorg", 2)
    x = _conv(g, g.concat([passed, x], "concat"), "mixed", 1024, 3)
    return _boxes(g, x, COCO)


def _tiny(g: GraphBuilder, x: Tensor) -> Tensor:
    x = _layers(g, x, "conv", TINY)
    x = g.max_pool(x, "pool", 2, 1, padding=(0, 0, 1, 1))
    x = _conv(g, _conv(g, x, "wide1", 1024, 3), "wide2", 1024, 3)
    return _boxes(g, x, VOC)


def _boxes(g: GraphBuilder, x: Tensor, classes: int) -> Tensor:
    """Four coordinates, objectness and class scores of each anchor."""
    return g.conv(x, "detect", ANCHORS * (5 + classes), 1, bias=True)


def _layers(g: GraphBuilder, x: Tensor, name: str, text: str) -> Tensor:
    for number, word in enumerate(text.split()):
        if word == "M":
            x = g.max_pool(x, f"{name}.{number}", 2, 2)
            continue
        filters, kernel = map(int, word.split("x"))
        x = _conv(g, x, f"{name}.{number}", filters, kernel)
    return x


YOLOV2 = Network(
    name="yolov2",
    description="YOLOv2, COCO (Redmon and Farhadi 2016)",
    body=_yolov2,
    image=(3, 416, 416),
    classes=None,
)
TINY_YOLOV2 = Network(
    name="tiny_yolov2",
    description="Tiny YOLO, version 2, VOC (Redmon and Farhadi 2016)",
    body=_tiny,
    image=(3, 416, 416),
    classes=None,
)
