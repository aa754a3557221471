"""Is a model sound: names, tensors, functions. What is not is refused in one line.

``onnx.checker`` was tried and left: it refuses models that every engine runs (outputs without a
type), and cannot take models above 2 GB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import chain

import onnx
from onnx import TensorProto, helper

from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.frontend.checks.check_bodies import check_bodies
from tvm_neocpu.frontend.checks.check_inputs import check_inputs
from tvm_neocpu.frontend.checks.limits import check_node_count, check_weight_bytes
from tvm_neocpu.frontend.nodes import all_graphs, opset_of, told

_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
_FOUR_BITS = frozenset(getattr(TensorProto, name, -1) for name in ("INT4", "UINT4", "FLOAT4E2M1"))
# The fields that hold one number for each element, by type.
_PLAIN = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.INT32: "int32_data",
    TensorProto.INT8: "int32_data",
    TensorProto.UINT8: "int32_data",
    TensorProto.BOOL: "int32_data",
    TensorProto.FLOAT16: "int32_data",
}

Graph = onnx.GraphProto | onnx.FunctionProto


def check_sound(model: onnx.ModelProto, name: str) -> None:
    """Check what importing relies on, in time and memory linear in the model's nodes.

    Raises ModelFileError, which calls the model ``name``.
    """
    if any(entry.version < 1 for entry in model.opset_import):
        raise ModelFileError(f"{name} is of an opset below 1")
    if not model.graph.output:
        raise ModelFileError(f"{name} has no outputs")
    check_node_count(name, _inlined_nodes(model, name))
    _check_names(model.graph, name)
    opset = opset_of(model)
    own = {(function.domain, function.name) for function in model.functions}
    for graph in _graphs([model.graph]):
        for node in graph.node:
            check_bodies(node, opset, name)
            if (node.domain, node.op_type) not in own:
                check_inputs(node, opset, name)
    tensors = list(tensors_of(model))
    for tensor in tensors:
        _check_tensor(tensor, name)
    check_weight_bytes(name, sum(map(_bytes, tensors)))


def tensors_of(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Every tensor: weights, constants, those of nested graphs and of functions."""
    for graph in _graphs([model.graph, *model.functions]):
        yield from getattr(graph, "initializer", ())
        sparse = list(getattr(graph, "sparse_initializer", ()))
        for attribute in chain.from_iterable(node.attribute for node in graph.node):
            yield from (*([attribute.t] if attribute.HasField("t") else ()), *attribute.tensors)
            sparse += attribute.sparse_tensors
            sparse += [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for tensor in sparse:
            yield from (tensor.values, tensor.indices)


def is_external(tensor: TensorProto) -> bool:
    """Whether the values lie in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def stored_bytes(tensor: TensorProto) -> int:
    """Bytes of the values, as a file holds them; 0 for strings."""
    if tensor.data_type == TensorProto.STRING:
        return 0
    count = math.prod(tensor.dims)
    if tensor.data_type in _FOUR_BITS:
        return (count + 1) // 2
    return count * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _bytes(tensor: TensorProto) -> int:
    return stored_bytes(tensor) if tensor.data_type in _TYPES else 0


def _graphs(roots: Iterable[Graph]) -> Iterator[Graph]:
    """The graphs and all that are nested in their nodes. Protobuf itself bounds the depth."""
    return chain.from_iterable(map(all_graphs, roots))


def _inlined_nodes(model: onnx.ModelProto, name: str) -> int:
    """Nodes of the graph after its local functions are inlined. Raises ModelFileError."""
    functions = {(function.domain, function.name): function for function in model.functions}
    calls = {
        key: [(node.domain, node.op_type) for graph in _graphs([function]) for node in graph.node]
        for key, function in functions.items()
    }
    order = TopologicalSorter({key: functions.keys() & set(calls[key]) for key in functions})
    counts: dict[tuple[str, str], int] = {}
    try:
        for key in order.static_order():
            counts[key] = sum(counts.get(call, 1) for call in calls[key])
    except CycleError as error:
        raise ModelFileError(f"{name} is broken: its functions call each other forever") from error
    return sum(
        counts.get((node.domain, node.op_type), 1)
        for graph in _graphs([model.graph])
        for node in graph.node
    )


def _check_names(graph: onnx.GraphProto, model: str) -> None:
    """Each tensor has one maker, and a name that is text. Raises ModelFileError."""
    weights = [tensor.name for tensor in graph.initializer]
    inputs = [value.name for value in graph.input]
    results = [name for node in graph.node for name in node.output if name]
    read = [name for node in graph.node for name in node.input]
    kinds = [text for node in graph.node for text in (node.op_type, node.domain, node.name)]
    outputs = [value.name for value in graph.output]
    # Protobuf hands bytes over where a text is not UTF-8.
    if any(isinstance(name, bytes) for name in chain(weights, inputs, results, read, kinds)):
        raise ModelFileError(f"{model} is broken: a name is not UTF-8")
    # Old models list their weights among the inputs too.
    made = [*dict.fromkeys([*_unique(weights, model), *_unique(inputs, model)]), *results]
    _unique(made, model)
    _check_order(graph, {*weights, *inputs}, set(results), model)
    missing = set(outputs) - set(made)
    if missing:
        raise ModelFileError(f"{model} is broken: nothing makes output {min(missing)!r}")


def _check_order(graph: onnx.GraphProto, made: set[str], results: set[str], model: str) -> None:
    """A node stands behind those whose results it reads, as ONNX wants it."""
    for node in graph.node:
        late = [name for name in node.input if name in results and name not in made]
        if late:
            raise ModelFileError(
                f"{model} is broken: {told(node)} reads {late[0]!r} before it is made; its nodes "
                "form a circle, or are not sorted"
            )
        made.update(node.output)


def _unique(names: list[str], model: str) -> list[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelFileError(f"{model} is broken: two tensors are named {name!r}")
        seen.add(name)
    return names


def _check_tensor(tensor: TensorProto, model: str) -> None:
    """The values are as many as the shape says, where they are in the model itself."""
    broken = f"{model} is broken: weight {tensor.name!r}"
    if tensor.data_type not in _TYPES:
        raise ModelFileError(f"{broken} has the unknown element type {tensor.data_type}")
    if any(extent < 0 for extent in tensor.dims):
        raise ModelFileError(f"{broken} has a negative extent: {list(tensor.dims)}")
    if is_external(tensor):
        return
    if tensor.HasField("raw_data"):
        found, wanted = len(tensor.raw_data), stored_bytes(tensor)
    elif tensor.data_type in _PLAIN:
        found, wanted = len(getattr(tensor, _PLAIN[tensor.data_type])), math.prod(tensor.dims)
    else:
        return
    if found != wanted:
        raise ModelFileError(f"{broken} is {list(tensor.dims)}, which its values do not fill")
