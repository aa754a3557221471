"""Weights of 4 or 2 bits become weights of 8 bits with the same values.

    w: int4                                  w: int8
    y = DequantizeLinear(w, s, z: int4)  ->  y = DequantizeLinear(w, s, z: int8)

Only constants that nothing but DequantizeLinear reads: everything else has the type in its results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tvm_neocpu.frontend.nodes import all_graphs, all_nodes

# By element type, what holds its values. Older versions of onnx know no types of 2 bits.
_BYTES: Mapping[int, type[np.generic]] = MappingProxyType(
    {
        getattr(TensorProto, name): dtype
        for name, dtype in (
            ("INT4", np.int8),
            ("UINT4", np.uint8),
            ("INT2", np.int8),
            ("UINT2", np.uint8),
        )
        if hasattr(TensorProto, name)
    }
)


def in_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, or a copy of one that has such weights."""
    found = {name for _, name in _narrow(model.graph)}
    if not found:
        return model
    nodes, graphs = list(all_nodes(model.graph)), list(all_graphs(model.graph))
    read = {name for node in nodes if node.op_type != "DequantizeLinear" for name in node.input}
    read.update(value.name for graph in graphs for value in graph.output)
    read.update(value.name for value in model.graph.input)
    if found <= read:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor, name in list(_narrow(copy.graph)):
        if name not in read:
            values = numpy_helper.to_array(tensor).astype(_BYTES[tensor.data_type])
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return copy


def _narrow(graph: onnx.GraphProto) -> Iterator[tuple[TensorProto, str]]:
    """The weights of such types, and the name by which nodes read each."""
    for each in all_graphs(graph):
        for tensor in each.initializer:
            if tensor.data_type in _BYTES:
                yield tensor, tensor.name
    for node in all_nodes(graph):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.t.data_type in _BYTES:
                yield attribute.t, node.output[0]
