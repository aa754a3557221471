"""One layer of the table, and what makes the most common ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Shape = tuple[int, ...]
Array = NDArray[Any]
Node = tuple[str, Sequence[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Layer:
    """One ONNX node; ``constants`` are its inputs behind the first ``inputs``.

    Inputs are named x0, x1..., constants c0, c1..., outputs y0, y1... ``nodes`` take the place of
    the one node. ``dtype`` is that of all inputs.
    """

    name: str
    operator: str
    inputs: tuple[Shape, ...]
    constants: tuple[Array | None, ...] = ()
    outputs: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[onnx.NodeProto, ...] = ()
    opset: int = 18
    dtype: str = "float32"

    @property
    def file_name(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.name) + ".so"

    def model(self) -> onnx.ModelProto:
        """The node alone."""
        fed = [f"x{place}" for place in range(len(self.inputs))]
        fixed = [
            numpy_helper.from_array(value, f"c{place}")
            for place, value in enumerate(self.constants)
            if value is not None
        ]
        names = ["" if value is None else f"c{place}" for place, value in enumerate(self.constants)]
        made = [f"y{place}" for place in range(self.outputs)]
        node = helper.make_node(self.operator, [*fed, *names], made, **self.attributes)
        graph = helper.make_graph(
            list(self.nodes) or [node],
            "layer",
            [
                helper.make_tensor_value_info(name, _element(self.dtype), shape)
                for name, shape in zip(fed, self.inputs, strict=True)
            ],
            [helper.make_empty_tensor_value_info(name) for name in made],
            fixed,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 9
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        types = {value.name: value.type for value in inferred.graph.value_info}
        types |= {v.name: v.type for v in inferred.graph.output if v.type.WhichOneof("value")}
        for value in model.graph.output:
            # GroupNormalization has no shape inference.
            value.type.CopyFrom(types.get(value.name, model.graph.input[0].type))
        return model


def _element(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def chain(name: str, shape: Shape, nodes: Sequence[Node], *constants: Array, **more: Any) -> Layer:
    """Nodes behind each other: operator, inputs, attributes.

    ``""`` is what the node before made; the last node makes y0, others t0, t1...
    """
    made = [f"t{place}" for place in range(len(nodes) - 1)] + ["y0"]
    before = ["x0", *made]
    return Layer(
        name,
        "",
        (shape,),
        constants,
        nodes=tuple(
            helper.make_node(
                operator, [given or before[place] for given in inputs], [made[place]], **attributes
            )
            for place, (operator, inputs, attributes) in enumerate(nodes)
        ),
        **more,
    )


def normal(*shape: int) -> Array:
    scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1)
    return (np.random.default_rng(1).standard_normal(shape) * scale).astype("float32")


def times(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


def unary(
    operator: str, *shape: int, constants: Sequence[Array | None] = (), **attributes: Any
) -> Layer:
    told = {k: v for k, v in attributes.items() if k != "keepdims"}
    small = [c.tolist() for c in constants if c is not None and c.dtype == "int64" and c.size < 5]
    given = " ".join([*(f"{k}={v}" for k, v in told.items()), *map(str, small)])
    name = f"{operator} {times(shape)} {given}".strip()
    return Layer(name, operator, (shape,), tuple(constants), attributes=attributes)
