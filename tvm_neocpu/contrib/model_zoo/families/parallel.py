"""Networks of parallel linear branches, in the form that was trained; compiling folds them.

Ding et al. 2021, "RepVGG: Making VGG-style ConvNets Great Again", table 2; Ding et al. 2019,
"ACNet: Strengthening the Kernel Skeletons for Powerful CNN", here on ResNet-18.
"""

from __future__ import annotations

from functools import reduce
from math import sqrt

from ..blocks import conv_norm, pooled_classifier
from ..builder import GraphBuilder, Tensor
from ..network import Network
from ..window import Size
from .resnet import BASIC_STAGES, WIDTHS

# RepVGG-A0: output channels and blocks of each stage.
REPVGG_STAGES = ((48, 1), (48, 2), (96, 4), (192, 14), (1280, 1))
KERNELS: tuple[Size, ...] = ((3, 3), (1, 3), (3, 1))


def _repvgg(g: GraphBuilder, x: Tensor) -> Tensor:
    for stage, (width, blocks) in enumerate(REPVGG_STAGES):
        for index in range(blocks):
            x = _rep_block(g, x, f"stage{stage}.{index}", width, 1 if index else 2)
    return pooled_classifier(g, x, "linear")


def _rep_block(g: GraphBuilder, x: Tensor, name: str, width: int, stride: int) -> Tensor:
    """3x3, 1x1 and, where the shapes allow it, the identity; each with a batch norm; added."""
    keeps = stride == 1 and x.channels == width
    gain = 1 / sqrt(3 if keeps else 2)
    three = conv_norm(g, x, f"{name}.dense", width, 3, stride, act=None, gain=gain)
    one = conv_norm(g, x, f"{name}.1x1", width, 1, stride, act=None, gain=gain)
    y = g.add(three, one, f"{name}.add")
    if keeps:
        y = g.add(y, g.batch_norm(x, f"{name}.identity", gain), f"{name}.add_identity")
    return g.relu(y, f"{name}.relu")


def _acnet(g: GraphBuilder, x: Tensor) -> Tensor:
    x = conv_norm(g, x, "stem", 64, 7, stride=2)
    x = g.max_pool(x, "maxpool", 3, 2, padding=1)
    for stage, (blocks, width) in enumerate(zip(BASIC_STAGES[18], WIDTHS, strict=True), start=1):
        for index in range(blocks):
            stride = 2 if stage > 1 and index == 0 else 1
            name = f"layer{stage}.{index}"
            y = g.relu(_asymmetric(g, x, f"{name}.conv1", width, stride), f"{name}.relu1")
            y = _asymmetric(g, y, f"{name}.conv2", width, 1, gain=1 / sqrt(blocks))
            if x.shape != y.shape:
                x = conv_norm(g, x, f"{name}.downsample", width, 1, stride, act=None)
            x = g.relu(g.add(x, y, f"{name}.add"), f"{name}.relu")
    return pooled_classifier(g, x, "fc")


def _asymmetric(
    g: GraphBuilder, x: Tensor, name: str, width: int, stride: int, gain: float = 1.0
) -> Tensor:
    """3x3, 1x3 and 3x1 convolutions, each with a batch norm, added."""
    gain /= sqrt(len(KERNELS))
    branches = [
        conv_norm(g, x, f"{name}.{number}", width, kernel, stride, act=None, gain=gain)
        for number, kernel in enumerate(KERNELS)
    ]
    numbers = iter(range(len(KERNELS)))
    return reduce(lambda one, two: g.add(one, two, f"{name}.add{next(numbers)}"), branches)


REPVGG_A0 = Network(
    name="repvgg_a0",
    description="RepVGG-A0, three branches a layer (Ding et al. 2021)",
    body=_repvgg,
)
ACNET_RESNET18 = Network(
    name="acnet_resnet18",
    description="ResNet-18 with ACNet's asymmetric branches (Ding et al. 2019)",
    body=_acnet,
)
