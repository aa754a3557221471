"""Files of half precision are computed in single precision, as ONNX Runtime does on CPUs.

    x: float16                          x: float16
    y = Conv(x, W: float16)      ->     x1 = Cast(x, FLOAT)
                                        y1 = Conv(x1, W: float32)
                                        y = Cast(y1, FLOAT16)

Inputs and outputs keep their types, and a Cast to half precision still rounds. What lies between is
wider than the file says: it rounds less, and does not overflow beyond 65504. bfloat16, for which
ONNX Runtime has no such arithmetic on CPUs and TVM's lacks operators, becomes single precision too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

from tvm_neocpu.frontend.nodes import all_graphs

HALVES, SINGLE = frozenset((TensorProto.FLOAT16, TensorProto.BFLOAT16)), TensorProto.FLOAT
# Operators whose arithmetic has templates in single precision; a file of float16 without them stays
# as it is.
HEAVY = frozenset(("Conv", "ConvTranspose", "DeformConv", "Gemm", "MatMul", "LSTM", "GRU", "RNN"))
# Attributes that name an element type.
_TYPE_ATTRIBUTES = frozenset(("dtype", "output_datatype"))


def in_single_precision(model: ModelProto) -> ModelProto:
    """The model itself, or a copy of one of half precision that computes in single precision."""
    graphs, kinds = list(all_graphs(model.graph)), _halves(model)
    if not kinds or any(map(_is_opaque, graphs)):
        return model
    if kinds == {TensorProto.FLOAT16} and not any(map(_is_heavy, graphs)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    if not _type_outputs(copy):
        return model
    names = {name for graph in all_graphs(copy.graph) for name in _names(graph)}
    outside = {
        value.name: _element_type(value)
        for value in (*_fed(copy.graph), *copy.graph.output)
        if _element_type(value) in HALVES
    }
    renamed = {name: _fresh(name, names) for name in outside}
    entries, exits = _casts(copy.graph, renamed)
    # From the inside out: a graph's nodes are copied when it is widened, with what is in them.
    for graph in reversed(list(all_graphs(copy.graph))):
        _widen(graph, renamed, names)
    for value in (*_fed(copy.graph), *copy.graph.output):
        if value.name in outside:
            value.type.tensor_type.elem_type = outside[value.name]
    inner = list(copy.graph.node)
    del copy.graph.node[:]
    copy.graph.node.extend([*entries, *inner, *exits])
    return copy


def has_halves(model: ModelProto) -> bool:
    """Whether a tensor that the file names has half precision."""
    return bool(_halves(model))


def _type_outputs(model: ModelProto) -> bool:
    """Give the outputs the element types that a file may omit; whether all have one then."""
    untyped = [value for value in model.graph.output if not _element_type(value)]
    if not untyped:
        return True
    inferred = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: _element_type(value) for value in (*inferred.output, *_fed(inferred))}
    types |= {tensor.name: tensor.data_type for tensor in inferred.initializer}
    for value in untyped:
        value.type.tensor_type.elem_type = types[value.name]
    return all(map(_element_type, untyped))


def _casts(graph: GraphProto, renamed: dict[str, str]) -> tuple[list[NodeProto], list[NodeProto]]:
    """Casts of what comes in, and of what goes out; an input that goes out comes in first."""
    fed = {value.name for value in _fed(graph)}
    entries = [
        helper.make_node("Cast", [value.name], [renamed[value.name]], to=SINGLE)
        for value in _fed(graph)
        if value.name in renamed
    ]
    exits = [
        helper.make_node("Cast", [renamed[value.name]], [value.name], to=_element_type(value))
        for value in graph.output
        if value.name in renamed and value.name not in fed
    ]
    return entries, exits


def _widen(graph: GraphProto, renamed: dict[str, str], names: set[str]) -> None:
    """Names and types of one graph, in place."""
    for tensor in graph.initializer:
        if tensor.data_type in HALVES:
            tensor.CopyFrom(_single(tensor))
        # An initializer may be a graph's output too.
        tensor.name = renamed.get(tensor.name, tensor.name)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if _element_type(value) in HALVES:
            value.type.tensor_type.elem_type = SINGLE
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for at, name in enumerate(node.input):
            node.input[at] = renamed.get(name, name)
        for at, name in enumerate(node.output):
            node.output[at] = renamed.get(name, name)
        for attribute in node.attribute:
            _widen_attribute(attribute)
        graph.node.append(node)
        if _casts_to_half(node):
            (result,) = node.output
            graph.node[-1].output[0] = rounded = _fresh(result, names)
            graph.node.append(helper.make_node("Cast", [rounded], [result], to=SINGLE))


def _widen_attribute(attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.TENSOR and attribute.t.data_type in HALVES:
        attribute.t.CopyFrom(_single(attribute.t))
    if attribute.name in _TYPE_ATTRIBUTES and attribute.i in HALVES:
        attribute.i = SINGLE


def _casts_to_half(node: NodeProto) -> bool:
    return node.op_type == "Cast" and any(a.name == "to" and a.i in HALVES for a in node.attribute)


def _single(tensor: TensorProto) -> TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)


def _halves(model: ModelProto) -> frozenset[int]:
    """The types of half precision that its constants, inputs and outputs have."""
    found: set[int] = set()
    for graph in all_graphs(model.graph):
        found.update(tensor.data_type for tensor in graph.initializer)
        found.update(map(_element_type, (*graph.input, *graph.output)))
    return HALVES & found


def _is_heavy(graph: GraphProto) -> bool:
    return any(node.op_type in HEAVY for node in graph.node)


def _is_opaque(graph: GraphProto) -> bool:
    """Whether it has tensors that are not at hand, values that are no tensors, or reads bits."""
    if len(graph.sparse_initializer) or any(node.op_type == "BitCast" for node in graph.node):
        return True
    values = (*graph.input, *graph.output, *graph.value_info)
    if any(value.type.HasField(kind) for value in values for kind in _NO_TENSORS):
        return True
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in graph.initializer)


_NO_TENSORS = ("sequence_type", "optional_type", "map_type", "sparse_tensor_type")


def _fed(graph: GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs that no initializer gives a value."""
    given = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in given]


def _element_type(value: onnx.ValueInfoProto) -> int:
    return int(value.type.tensor_type.elem_type) if value.type.HasField("tensor_type") else 0


def _names(graph: GraphProto) -> Iterable[str]:
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (*node.input, *node.output)


def _fresh(name: str, names: set[str]) -> str:
    """A name that nothing has, from now on taken."""
    fresh = f"{name}_single"
    while fresh in names:
        fresh += "_"
    names.add(fresh)
    return fresh
