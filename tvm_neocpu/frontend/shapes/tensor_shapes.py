"""The shapes of an ONNX graph's tensors, by inference."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import onnx
from onnx import TensorProto, helper

from tvm_neocpu.core.errors import ModelFileError, first_line
from tvm_neocpu.frontend.nodes import static_shape
from tvm_neocpu.frontend.shapes.known_tensors import MAX_ELEMENTS

Shape = tuple[int, ...]


def shapes_of(
    model: onnx.ModelProto, graph: onnx.GraphProto, inputs: Mapping[str, Shape]
) -> dict[str, Shape]:
    """The shape of every tensor that has one."""
    kept, values = [], []
    for tensor in graph.initializer:
        # Large weights are only described: inference would copy their values.
        if prod(tensor.dims) > MAX_ELEMENTS:
            described = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            values.append(described)
        else:
            kept.append(tensor)
    for value in model.graph.input:
        if value.name in inputs:
            kind = value.type.tensor_type.elem_type or TensorProto.FLOAT
            values.append(helper.make_tensor_value_info(value.name, kind, inputs[value.name]))
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    outputs = [helper.make_empty_tensor_value_info(value.name) for value in graph.output]
    light.graph.CopyFrom(helper.make_graph(list(graph.node), "light", values, outputs, kept))
    try:
        found = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    except Exception as error:  # onnx's C++ raises types of its own
        raise ModelFileError(
            f"the model's shapes contradict each other: {first_line(error)}"
        ) from error
    known = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*found.value_info, *found.input, *found.output):
        shape = static_shape(value.type)
        if shape is not None:
            known[value.name] = shape
    return known
