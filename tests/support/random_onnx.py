"""Random CNNs as ONNX: a sketch is a few integers, which hypothesis draws and shrinks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.shape_inference import infer_node_outputs

T = TypeVar("T")
Shape = tuple[int, ...]
OPSET = 21
_OPSETS = [helper.make_opsetid("", OPSET)]


@dataclass(frozen=True)
class Layer:
    """One layer: a kind, and numbers that its choices read one after another (0 at their end)."""

    kind: str
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sketch:
    """All that a random network is made of; its printed form is enough to make it again."""

    shape: Shape
    layers: tuple[Layer, ...]
    outputs: int = 1


def sketches(kinds: Sequence[str], max_layers: int = 8) -> st.SearchStrategy[Sketch]:
    """Networks of (N, C, H, W) = up to (2, 40, 15, 15) that have these kinds of layers."""
    layer = st.builds(
        Layer,
        st.sampled_from(kinds),
        st.lists(st.integers(0, 11), max_size=20).map(tuple),
    )
    shape = st.tuples(
        st.sampled_from([1, 2]),
        st.sampled_from([3, 1, 8, 16, 17, 30, 40]),
        st.integers(1, 15),
        st.integers(1, 15),
    )
    layers = st.lists(layer, min_size=1, max_size=max_layers).map(tuple)
    return st.builds(Sketch, shape, layers, st.integers(1, 2))


class Choices:
    """Picks of a layer: a number of the sketch each, the first option where numbers run out."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = list(reversed(numbers))

    def __call__(self, *options: T) -> T:
        number = self._numbers.pop() if self._numbers else 0
        return options[number % len(options)]


class Skip(Exception):
    """The layer does not fit behind the layers before it."""


@dataclass
class RandomNet:
    """Writes nodes down, and knows the shape of each tensor by onnx's own inference.

    ``maps`` are the results of layers, which later layers read.
    """

    shape: Shape
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, onnx.TensorProto] = field(default_factory=dict)
    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    maps: list[str] = field(default_factory=lambda: ["data"])
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    prefix: str = ""

    def __post_init__(self) -> None:
        self.types["data"] = helper.make_tensor_type_proto(TensorProto.FLOAT, self.shape)

    def __call__(self, kind: str, *inputs: str, checked: bool = True, **attributes: Any) -> str:
        return self.several(1, kind, *inputs, checked=checked, **attributes)[0]

    def several(
        self, outputs: int, kind: str, *inputs: str, checked: bool = True, **attributes: Any
    ) -> list[str]:
        """A node of several results. Raises Skip where onnx finds none, or a huge or empty one.

        Extents that only a run knows are not ``checked``.
        """
        place = f"{self.prefix}{len(self.nodes)}"
        names = [f"t{place}_{output}" for output in range(outputs)]
        node = helper.make_node(kind, list(inputs), names, f"n{place}", **attributes)
        known = {name: self.types[name] for name in inputs if name}
        if any(attribute.HasField("g") for attribute in node.attribute):
            known = self.types
        data = {name: self.weights[name] for name in inputs if name in self.weights}
        schema = onnx.defs.get_schema(kind, OPSET, "")
        try:
            found = infer_node_outputs(schema, node, known, data, opset_imports=_OPSETS)
        except Exception as error:
            raise Skip(str(error)) from error
        for name in names:
            dims = [dim.dim_value for dim in found[name].tensor_type.shape.dim]
            many = math.prod(dims)
            if checked and (many > 60_000 or many < 1 or len(dims) > 7):
                raise Skip(f"{kind} makes {dims}")
        self.types.update(found)
        self.nodes.append(node)
        return names

    def shape_of(self, name: str) -> Shape:
        return tuple(dim.dim_value for dim in self.types[name].tensor_type.shape.dim)

    def pick(self, pick: Choices, rank: int | None = 4, like: Shape = ()) -> str:
        """A recent map of that rank (of any for ``None``) that ends in the extents ``like``."""
        fits = [
            name
            for name in reversed(self.maps)
            if rank in (None, len(self.shape_of(name)))
            and self.shape_of(name)[len(self.shape_of(name)) - len(like) :] == like
        ]
        if not fits:
            raise Skip("no tensor fits")
        return pick(*fits[:4])

    def constant(self, values: ArrayLike, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = numpy_helper.from_array(np.asarray(values, dtype), name)
        self.types[name] = helper.make_tensor_type_proto(
            self.weights[name].data_type, self.weights[name].dims
        )
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, "int64")

    def weight(self, *shape: int) -> str:
        """Random values that keep the size of what they are multiplied with."""
        scale = math.sqrt(max(math.prod(shape[1:]), 1))
        return self.constant(self.rng.normal(size=shape) / scale)

    def uniform(self, low: float, high: float, *shape: int) -> str:
        return self.constant(self.rng.uniform(low, high, shape))

    def model(self, outputs: int) -> onnx.ModelProto:
        names = list(dict.fromkeys(reversed(self.maps)))[:outputs]
        results = [helper.make_value_info(name, self.types[name]) for name in names]
        # An output that is an input is no network.
        results = [value for value in results if value.name != "data"]
        data = helper.make_value_info("data", self.types["data"])
        graph = helper.make_graph(
            self.nodes, "random", [data], results, list(self.weights.values())
        )
        return helper.make_model(graph, opset_imports=_OPSETS, ir_version=10)


def data_for(model: onnx.ModelProto) -> NDArray[np.float32]:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value for dim in dims]
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
