"""ONNX nodes: what computes shapes, what a node reads, what is constant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from tvm_neocpu.core.errors import ModelFileError

# Two spellings of ONNX's own domain.
STANDARD = ("", "ai.onnx")
# These need the shape of their input only.
SHAPE_READERS = frozenset({"Shape", "Size"})
# The operators that exporters compute shapes, scales, paddings and positions with.
FOLDABLE = SHAPE_READERS | frozenset(
    [
        "Abs",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "Cast",
        "CastLike",
        "Ceil",
        "Clip",
        "Compress",
        "Concat",
        "ConstantOfShape",
        "CumSum",
        "Div",
        "Equal",
        "Exp",
        "Expand",
        "EyeLike",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "OneHot",
        "Or",
        "Pow",
        "Range",
        "Reciprocal",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Round",
        "ScatterElements",
        "ScatterND",
        "Sign",
        "Size",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
        "Xor",
    ]
)


class HasNodes(Protocol):
    """A graph, a function, or what stands for one."""

    @property
    def node(self) -> Iterable[onnx.NodeProto]: ...


Root = TypeVar("Root", bound=HasNodes)


def constant_of(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node, whichever attribute has it; ``None`` for another node."""
    if node.op_type != "Constant" or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        return attribute.t
    dtype = {"float": np.float32, "int": np.int64}.get(attribute.name[6:].removesuffix("s"))
    if dtype is None:
        return None
    value = np.array(helper.get_attribute_value(attribute), dtype)
    return numpy_helper.from_array(value, node.output[0])


def static_shape(type_: onnx.TypeProto | None) -> tuple[int, ...] | None:
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return None
    dims = type_.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        return None
    return tuple(dim.dim_value for dim in dims)


def common_type(one: onnx.TypeProto, other: onnx.TypeProto | None) -> onnx.TypeProto:
    """What two types have in common: extents that differ are open; an empty one if ranks do."""
    if other is None or one.tensor_type.elem_type != other.tensor_type.elem_type:
        return onnx.TypeProto()
    ranks = [each.tensor_type.HasField("shape") for each in (one, other)]
    pairs = (one.tensor_type.shape.dim, other.tensor_type.shape.dim)
    if not all(ranks) or len(pairs[0]) != len(pairs[1]):
        return onnx.TypeProto()
    same = [
        a.dim_value if a.HasField("dim_value") and b.HasField("dim_value") and a == b else None
        for a, b in zip(*pairs, strict=True)
    ]
    return helper.make_tensor_type_proto(one.tensor_type.elem_type, same)


def constant_node(name: str, value: npt.NDArray[Any]) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name))


def told(node: onnx.NodeProto) -> str:
    """``Conv (node stem)``, as errors name a node."""
    return f"{node.op_type} (node {node.name or 'without a name'})"


def body_of(node: onnx.NodeProto) -> onnx.GraphProto:
    """The body of a Loop or a Scan. Raises ModelFileError where the node has none."""
    for entry in node.attribute:
        if entry.name == "body" and entry.HasField("g"):
            return entry.g
    raise ModelFileError(f"the model is broken: {told(node)} has no body")


def int_lists(node: onnx.NodeProto) -> dict[str, list[int]]:
    """The attributes that are whole numbers, each as a list."""
    return {
        entry.name: list(entry.ints) or [entry.i]
        for entry in node.attribute
        if not entry.HasField("g")
    }


def nested_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in a node's attributes: branches, bodies."""
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def all_nodes(graph: HasNodes) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph, each before those of the graphs nested in it."""
    for node in graph.node:
        yield node
        for inner in nested_graphs(node):
            yield from all_nodes(inner)


def all_graphs(root: Root) -> Iterator[Root | onnx.GraphProto]:
    """A graph or a function, and the graphs nested in its nodes, each before those nested in it."""
    yield root
    for node in root.node:
        for inner in nested_graphs(node):
            yield from all_graphs(inner)


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Inputs of the node and of its nested graphs."""
    yield from node.input
    for graph in nested_graphs(node):
        yield from (value.name for value in graph.output)
        for inner in graph.node:
            yield from names_read(inner)


def has_graph(node: onnx.NodeProto) -> bool:
    return next(nested_graphs(node), None) is not None


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the standard operators that the model uses."""
    versions = [entry.version for entry in model.opset_import if entry.domain in STANDARD]
    return versions[0] if versions else 1
