"""Which element types a model may have; all others are refused before anything is converted."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import TensorProto

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.nodes import all_nodes, nested_graphs

_WHOLE = frozenset(
    {
        TensorProto.BOOL,
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
    }
)
_REAL = frozenset(
    {TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}
)
# TVM rounds to float8 in its own way, and reads float8 without NaN. Exponents alone it reads right.
_MADE = _WHOLE | _REAL | {TensorProto.UNDEFINED}
_READ = _MADE | {TensorProto.FLOAT8E8M0}


def check_element_types(graph: onnx.GraphProto) -> None:
    """Raises UnsupportedOperatorError, which names a tensor of a type that is not supported."""
    for name, kind, allowed in _types(graph):
        if kind not in allowed:
            words = TensorProto.DataType.Name(kind).lower()
            raise UnsupportedOperatorError(f"tensor {name!r} has elements of the type {words}")


def _types(graph: onnx.GraphProto) -> Iterator[tuple[str, int, frozenset[int]]]:
    for value in graph.input:
        yield value.name, value.type.tensor_type.elem_type, _READ
    for value in graph.output:
        yield value.name, value.type.tensor_type.elem_type, _MADE
    for tensor in graph.initializer:
        yield tensor.name, tensor.data_type, _READ
    for node in all_nodes(graph):
        for inner in nested_graphs(node):
            for tensor in inner.initializer:
                yield tensor.name, tensor.data_type, _READ
        for attribute in node.attribute:
            if attribute.name == "to" and node.op_type == "Cast":
                yield node.output[0], attribute.i, _MADE
            elif attribute.name == "value" and node.op_type == "Constant":
                yield node.output[0], attribute.t.data_type, _READ
