"""Which inputs of a graph decide shapes by their values: these must be known to compile.

shape -> Reshape(x, .)                  shape
n     -> Concat(., 1) -> Tile(x, .)     n
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import onnx

from tvm_neocpu.frontend.nodes import FOLDABLE, all_nodes
from tvm_neocpu.frontend.reading.onnx_model import graph_inputs

# Inputs of an operator, by place, whose values decide shapes, axes or numbers of elements.
_PLACES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "AffineGrid": (1,),
        "BlackmanWindow": (0,),
        "CenterCropPad": (1,),
        "Col2Im": (1, 2),
        "ConstantOfShape": (0,),
        "CumSum": (1,),
        "DFT": (1, 2),
        "Dropout": (1, 2),
        "Expand": (1,),
        "HammingWindow": (0,),
        "HannWindow": (0,),
        "Loop": (0, 1),
        "MaxUnpool": (2,),
        "MelWeightMatrix": (0, 1, 2, 3, 4),
        "NonMaxSuppression": (2, 3, 4),
        "OneHot": (1,),
        "Pad": (1, 3),
        "Range": (0, 1, 2),
        "ReduceL1": (1,),
        "ReduceL2": (1,),
        "ReduceLogSum": (1,),
        "ReduceLogSumExp": (1,),
        "ReduceMax": (1,),
        "ReduceMean": (1,),
        "ReduceMin": (1,),
        "ReduceProd": (1,),
        "ReduceSum": (1,),
        "ReduceSumSquare": (1,),
        "Reshape": (1,),
        "Resize": (1, 2, 3),
        "STFT": (1, 3),
        "Slice": (1, 2, 3, 4),
        "Split": (1,),
        "SplitToSequence": (1,),
        "Squeeze": (1,),
        "Tile": (1, 2),
        "TopK": (1,),
        "Trilu": (1,),
        "Unsqueeze": (1,),
        "Upsample": (1,),
    }
)
# What leads from such an input to such a place. What picks elements by their values, or reads no
# more than a shape, ends the way.
_PASSED = FOLDABLE - {"Compress", "NonZero", "Shape", "Size", "TopK"}


def structural_inputs(graph: onnx.GraphProto) -> frozenset[str]:
    """Names of the inputs that a user feeds and whose values decide shapes."""
    nodes = list(all_nodes(graph))
    wanted = {name for node in nodes for name in _read_for_shapes(node)}
    for node in reversed(nodes):
        if node.op_type in _PASSED and wanted.intersection(node.output):
            wanted.update(node.input)
    return frozenset(value.name for value in graph_inputs(graph) if value.name in wanted)


def _read_for_shapes(node: onnx.NodeProto) -> Iterator[str]:
    for place in _PLACES.get(node.op_type, ()):
        if place < len(node.input) and node.input[place]:
            yield node.input[place]
