"""What a model says of its inputs and outputs, where no shape is known to import it for."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import onnx

from tvm_neocpu.frontend.reading.onnx_model import declared_shape, graph_inputs

# Name, shape and NumPy dtype; -1 is an extent that varies.
Declared = tuple[str, tuple[int, ...], str]


def declared_inputs(graph: onnx.GraphProto) -> tuple[Declared, ...] | None:
    """``None`` where one is no tensor, or its rank is not said."""
    values = graph_inputs(graph)
    if any(declared_shape(value) is None for value in values):
        return None
    return _declared(values)


def declared_outputs(model: onnx.ModelProto) -> tuple[Declared, ...] | None:
    """``None`` where one is no tensor. A rank that is not said is inferred; where it cannot be,
    there are no extents.
    """
    values = model.graph.output
    if any(declared_shape(value) is None for value in values):
        with contextlib.suppress(Exception):  # of what is broken; a run's import says it
            values = onnx.shape_inference.infer_shapes(model).graph.output
    return _declared(values)


def _declared(values: Sequence[onnx.ValueInfoProto]) -> tuple[Declared, ...] | None:
    if not all(value.type.HasField("tensor_type") for value in values):
        return None
    return tuple(
        (
            value.name,
            tuple(-1 if extent is None else extent for extent in declared_shape(value) or ()),
            str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)),
        )
        for value in values
    )
