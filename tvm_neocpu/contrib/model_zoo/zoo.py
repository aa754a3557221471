"""The table of all networks, and how to get one by name."""

from __future__ import annotations

import onnx

from tvm_neocpu.core.errors import UnknownModelError

from .families.alexnet import ALEXNET
from .families.convnext import CONVNEXT_TINY
from .families.deeplab import DEEPLABV3_RESNET50
from .families.densenet import densenet
from .families.efficientnet import EFFICIENTNET_B0
from .families.faster_rcnn import FASTER_RCNN_BOX_HEAD, FASTER_RCNN_RPN
from .families.googlenet import GOOGLENET
from .families.inception_v3 import INCEPTION_V3
from .families.lenet import LENET
from .families.mnasnet import MNASNET
from .families.mobilenet_v1 import MOBILENET_V1
from .families.mobilenet_v2 import MOBILENET_V2
from .families.mobilenet_v3 import MOBILENET_V3_LARGE, MOBILENET_V3_SMALL
from .families.nasnet import NASNET_A_LARGE, NASNET_A_MOBILE
from .families.parallel import ACNET_RESNET18, REPVGG_A0
from .families.pnasnet import PNASNET_5_LARGE, PNASNET_5_MOBILE
from .families.randwire import RANDWIRE_SMALL
from .families.regnet import REGNET_Y_400MF
from .families.resnet import resnet, resnext50
from .families.shufflenet_v2 import SHUFFLENET_V2
from .families.squeezenet import squeezenet
from .families.ssd import SSD_RESNET50
from .families.unet import UNET
from .families.vgg import vgg
from .families.yolo import TINY_YOLOV2, YOLOV2
from .network import Network

NETWORKS: tuple[Network, ...] = (
    *(resnet(depth) for depth in (18, 34, 50, 101, 152)),
    resnext50(),
    *(vgg(depth) for depth in (11, 13, 16, 19)),
    *(densenet(depth) for depth in (121, 161, 169, 201)),
    INCEPTION_V3,
    GOOGLENET,
    ALEXNET,
    *(squeezenet(version) for version in ("1.0", "1.1")),
    MOBILENET_V1,
    MOBILENET_V2,
    MOBILENET_V3_LARGE,
    MOBILENET_V3_SMALL,
    MNASNET,
    EFFICIENTNET_B0,
    REGNET_Y_400MF,
    SHUFFLENET_V2,
    REPVGG_A0,
    ACNET_RESNET18,
    CONVNEXT_TINY,
    NASNET_A_MOBILE,
    NASNET_A_LARGE,
    PNASNET_5_MOBILE,
    PNASNET_5_LARGE,
    RANDWIRE_SMALL,
    UNET,
    DEEPLABV3_RESNET50,
    SSD_RESNET50,
    FASTER_RCNN_RPN,
    FASTER_RCNN_BOX_HEAD,
    YOLOV2,
    TINY_YOLOV2,
    LENET,
)


def names() -> tuple[str, ...]:
    """Every name that `build` knows, in the table's order."""
    return tuple(network.name for network in NETWORKS)


def find(name: str) -> Network:
    """The network of that name. Raises UnknownModelError."""
    for network in NETWORKS:
        if network.name == name:
            return network
    raise UnknownModelError(f"no network is called {name!r}; the zoo has {', '.join(names())}")


def build(name: str, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """The network as ONNX with random weights, all float32.

    Input `data` (NCHW); a classifier has the output `output` (batch, classes), a detector several
    by name. The same seed gives the same bytes; the weights do not depend on the batch.

    Raises UnknownModelError for a name that is not in `names()`, ShapeError for a batch below 1.
    """
    return find(name).build(batch, seed)


def input_shape(name: str, batch: int = 1) -> tuple[int, int, int, int]:
    """The shape (NCHW) of the network's input. Raises UnknownModelError."""
    return find(name).input_shape(batch)
