"""Nodes that take the place of one node, as they are written one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu.frontend.rewriting.fresh_names import FreshNames


class Body:
    """The nodes in place of one; names of what it computes begin with the node's first result."""

    def __init__(
        self,
        node: onnx.NodeProto,
        types: Sequence[onnx.TypeProto | None],
        opset: int,
        fresh: FreshNames,
    ) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.opset = opset
        self.inputs = list(node.input)
        self.results = list(node.output)
        self.attributes: dict[str, Any] = {
            entry.name: helper.get_attribute_value(entry) for entry in node.attribute
        }
        self._name = node.name
        self._types = types
        self._fresh = fresh
        self._prefix = next(filter(None, node.output))

    def input(self, place: int) -> str:
        """The name of an input; empty where it is omitted."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def rank(self, place: int) -> int | None:
        """The rank of an input; ``None`` where it is not known."""
        known = self._types[place]
        if known is None or not known.tensor_type.HasField("shape"):
            return None
        return len(known.tensor_type.shape.dim)

    def extent(self, place: int, axis: int) -> int | None:
        """The extent of an input's axis; ``None`` where it is not known."""
        rank = self.rank(place) if place < len(self._types) else None
        if rank is None or axis >= rank:
            return None
        dim = self._types[place].tensor_type.shape.dim[axis]
        return dim.dim_value if dim.HasField("dim_value") else None

    def is_integer(self, place: int) -> bool:
        """Whether an input has whole numbers."""
        known = self._types[place]
        kind = (known.tensor_type.elem_type if known else 0) or TensorProto.FLOAT
        return bool(np.issubdtype(helper.tensor_dtype_to_np_dtype(kind), np.integer))

    def int64(self, values: int | Sequence[int]) -> str:
        """A constant of 64-bit integers, as shapes, axes and places are."""
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(values, "int64")))

    def constant(self, value: Any, place: int = 0) -> str:
        """A constant of the element type that the input at ``place`` has, float32 by default."""
        known = self._types[place]
        kind = (known.tensor_type.elem_type if known else 0) or TensorProto.FLOAT
        array = np.asarray(value, helper.tensor_dtype_to_np_dtype(kind))
        return self.add("Constant", value=numpy_helper.from_array(array))

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """The name of a node's first result; the others have the names behind it."""
        return self.add_all(op_type, *inputs, outputs=outputs, **attributes)[0]

    def add_all(self, op_type: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        read = list(inputs)
        while read and not read[-1]:
            read.pop()
        names = [self._fresh(f"{self._prefix}/{len(self.nodes)}_{at}") for at in range(outputs)]
        # The first heavy node keeps the name that profiles show.
        name, self._name = (self._name, "") if op_type != "Constant" else ("", self._name)
        self.nodes.append(helper.make_node(op_type, read, names, name, **attributes))
        return names

    def unsqueeze(self, value: str, axes: Sequence[int]) -> str:
        """Axes of one element, at places among the result's axes."""
        if self.opset < 13:
            return self.add("Unsqueeze", value, axes=axes)
        return self.add("Unsqueeze", value, self.int64(axes))

    def counted(self, value: str, axis: int) -> str:
        """``0, 1, ..`` for the elements along an axis of a tensor."""
        return self.add("Range", self.int64(0), self.extent_of(value, axis), self.int64(1))

    def extent_of(self, value: str, axis: int) -> str:
        """The extent of a tensor's axis, as a number without axes."""
        return self.add("Gather", self.add("Shape", value), self.int64(axis), axis=0)

    def split(self, value: str, widths: Sequence[int]) -> list[str]:
        """Parts of the last axis."""
        if self.opset < 13:
            return self.add_all("Split", value, outputs=len(widths), axis=-1, split=widths)
        return self.add_all("Split", value, self.int64(widths), outputs=len(widths), axis=-1)

    def slice(self, value: str, axis: int, start: int, stop: int, step: int) -> str:
        """Elements of one axis, as Python's slices choose them."""
        bounds = (self.int64([number]) for number in (start, stop, axis, step))
        return self.add("Slice", value, *bounds)

    def named(self, name: str, place: int = 0) -> None:
        """Call a tensor of the body by the name of the node's result, if the node has that."""
        if place < len(self.results) and self.results[place]:
            self.nodes.append(helper.make_node("Identity", [name], [self.results[place]]))
