"""DeepLabv3 on ResNet-50 (Chen et al. 2017, "Rethinking Atrous Convolution").

Built as in torchvision: output stride 8, 21 classes, scores at the image's size. The auxiliary
classifier is left out: only training uses it.
"""

from __future__ import annotations

from ..blocks import conv_norm
from ..builder import GraphBuilder, Tensor
from ..movement import enlarge
from ..network import Network
from .resnet import Variant, stages

WIDTH = 256
RATES = (12, 24, 36)
CLASSES = 21


def _body(g: GraphBuilder, x: Tensor) -> Tensor:
    image = x.image[0], x.image[1]
    x = stages(g, x, 50, Variant(dilations=(1, 1, 2, 4)))[-1]
    x = conv_norm(g, _pyramid(g, x), "head.conv", WIDTH, 3)
    x = g.conv(x, "head.classifier", CLASSES, 1, bias=True)
    return enlarge(g, x, "enlarged", image, "linear")


def _pyramid(g: GraphBuilder, x: Tensor) -> Tensor:
    """Atrous spatial pyramid pooling: 1x1, three dilated 3x3, and the image's average."""
    branches = [conv_norm(g, x, "aspp.0", WIDTH, 1)]
    branches += [
        conv_norm(g, x, f"aspp.{number}", WIDTH, 3, dilation=rate)
        for number, rate in enumerate(RATES, start=1)
    ]
    pooled = conv_norm(g, g.global_average_pool(x, "aspp.avgpool"), "aspp.pool", WIDTH, 1)
    branches.append(enlarge(g, pooled, "aspp.enlarged", (x.image[0], x.image[1]), "linear"))
    return conv_norm(g, g.concat(branches, "aspp.concat"), "aspp.project", WIDTH, 1)


DEEPLABV3_RESNET50 = Network(
    name="deeplabv3_resnet50",
    description="DeepLabv3 on ResNet-50, output stride 8 (Chen et al. 2017)",
    body=_body,
    image=(3, 520, 520),
    classes=None,
)
