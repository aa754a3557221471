"""Looking into an ONNX graph, and changing its outputs and weights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import onnx
from numpy.typing import NDArray

Readers = dict[str, list[onnx.NodeProto]]


def showing(model: onnx.ModelProto, tensors: Iterable[str]) -> onnx.ModelProto:
    """A copy with exactly these tensors as its outputs, in this order."""
    shown = copy_of(model)
    known = {value.name: value for value in [*model.graph.output, *model.graph.value_info]}
    del shown.graph.output[:]
    for name in tensors:
        shown.graph.output.append(known.get(name) or onnx.ValueInfoProto(name=name))
    return shown


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied


def output_names(model: onnx.ModelProto) -> list[str]:
    """The outputs in the model's order."""
    return [value.name for value in model.graph.output]


def readers_of(graph: onnx.GraphProto) -> Readers:
    """Tensor -> the operations that read it, once each."""
    readers: Readers = {}
    for node in graph.node:
        for name in dict.fromkeys(filter(None, node.input)):
            readers.setdefault(name, []).append(node)
    return readers


def weights_of(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Initialisers by name."""
    return {tensor.name: tensor for tensor in graph.initializer}


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """The value of a node's attribute, or the default."""
    found = [entry for entry in node.attribute if entry.name == name]
    return onnx.helper.get_attribute_value(found[0]) if found else default


def set_weights(graph: onnx.GraphProto, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Give initialisers of these names new values; add those that are not there."""
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name in arrays:
            del graph.initializer[place]
    graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in arrays.items()
    )


def fed_weights(graph: onnx.GraphProto, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Make inputs of initialisers, which every run may replace then; returns their values."""
    values = {}
    for place in reversed(range(len(graph.initializer))):
        tensor = graph.initializer[place]
        if tensor.name in names:
            values[tensor.name] = onnx.numpy_helper.to_array(tensor)
            fed = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(fed)
            del graph.initializer[place]
    return values
