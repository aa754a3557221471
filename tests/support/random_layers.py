"""Random networks, layer by layer."""

from __future__ import annotations

import onnx
from layer_kinds import (
    control,
    elementwise,
    moves,
    recurrent,
    rows,
    sampling,
    selecting,
    sums,
    windows,
)
from layer_kinds.layer import Write
from random_onnx import Choices, RandomNet, Sketch, Skip

# Without loops, so that an emulator may run their kernels one after the other.
FEED_FORWARD: dict[str, Write] = {**windows.KINDS, **elementwise.KINDS, **moves.KINDS, **sums.KINDS}
KINDS: dict[str, Write] = {
    **FEED_FORWARD,
    **recurrent.KINDS,
    **control.KINDS,
    **sampling.KINDS,
    **selecting.KINDS,
    **rows.KINDS,
}
# Convolutions are what plans are about.
CONVOLUTIONS = (*("conv", "plain conv", "depthwise", "plain conv") * 3, "batch norm", "concat")
WEIGHTED = (*KINDS, *CONVOLUTIONS)


def written(sketch: Sketch) -> onnx.ModelProto:
    """The network; layers that do not fit are left out."""
    net = RandomNet(sketch.shape)
    for layer in sketch.layers:
        before = len(net.nodes)
        try:
            net.maps.append(KINDS[layer.kind](net, Choices(layer.numbers)))
        except Skip:
            del net.nodes[before:]
    if not net.nodes:
        net.maps.append(net("Relu", "data"))
    return net.model(sketch.outputs)
