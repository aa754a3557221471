"""The table of all networks, and how to get one by name."""

from __future__ import annotations

import onnx

from tvm_neocpu.core.errors import UnknownModelError

from .densenet import densenet
from .inception_v3 import INCEPTION_V3
from .lenet import LENET
from .mobilenet_v2 import MOBILENET_V2
from .network import Network
from .resnet import resnet
from .vgg import vgg

NETWORKS: tuple[Network, ...] = (
    resnet(18),
    resnet(34),
    resnet(50),
    resnet(101),
    resnet(152),
    vgg(16),
    densenet(121),
    INCEPTION_V3,
    MOBILENET_V2,
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

    Input `data` (NCHW), output `output` (batch, classes). The same seed gives the same bytes; the
    weights do not depend on the batch.

    Raises UnknownModelError for a name that is not in `names()`, ShapeError for a batch below 1.
    """
    return find(name).build(batch, seed)


def input_shape(name: str, batch: int = 1) -> tuple[int, int, int, int]:
    """The shape (NCHW) of the network's input. Raises UnknownModelError."""
    return find(name).input_shape(batch)
