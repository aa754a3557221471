"""A model for engines that take the shapes of its inputs from the file alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx


def at_shapes(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """The model, its inputs of these shapes. ONNX Runtime refuses 8 images where a file says 1.

    Where the file contradicts none of them it is the model itself, else a copy that says nothing of
    other tensors' shapes.
    """
    if all(_fits(value, shapes.get(value.name)) for value in model.graph.input):
        return model
    reshaped = onnx.ModelProto()
    reshaped.CopyFrom(model)
    graph = reshaped.graph
    for value in graph.input:
        for dim, extent in zip(_dims(value), shapes.get(value.name, ()), strict=False):
            dim.dim_value = extent
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    return reshaped


def _fits(value: onnx.ValueInfoProto, shape: Sequence[int] | None) -> bool:
    """Whether what the file says of an input's extents does not contradict ``shape``."""
    declared = [dim.dim_value for dim in _dims(value)]
    if shape is None or len(declared) != len(shape):
        return True
    return all(said in (0, extent) for said, extent in zip(declared, shape, strict=True))


def _dims(value: onnx.ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return value.type.tensor_type.shape.dim
