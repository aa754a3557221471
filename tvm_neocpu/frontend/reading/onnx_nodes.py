"""The ONNX nodes behind what engines run: convolutions and products, by name.

Passes and engines fuse nodes and rename them. Convolutions and matrix products survive: one of ours
is known by its workload, and by its place among equal ones; a peer's by a name of the nodes fused.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import onnx

from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.network.equal_keys import kth_of_equal
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.frontend.nodes import opset_of
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.frontend.shapes.fold_shapes import fold_shapes
from tvm_neocpu.frontend.shapes.tensor_shapes import shapes_of
from tvm_neocpu.topi.layer_key import (
    conv_key,
    count_of_parts,
    layer_key,
    product_key,
    product_of,
    widens,
)

PRODUCTS = ("Gemm", "MatMul")
HEAVY = ("Conv", *PRODUCTS)
Shape = tuple[int, ...]
# (a node's key, a layer's key) -> how many such layers a pass makes of the node; 0 for none.
Count = Callable[[Hashable | None, Hashable | None], int]


@dataclass(frozen=True)
class HeavyNode:
    """``computes`` says what its workload must look like."""

    name: str
    computes: Hashable


class OnnxNodes:
    """The model's convolutions and products in the order of its file; none of open shapes."""

    def __init__(self, model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> None:
        nodes: Sequence[onnx.NodeProto] = model.graph.node
        known: dict[str, Shape] = {}
        with contextlib.suppress(NeoCpuError):  # names are a help: a build says what is wrong
            inputs = resolve_shapes(model.graph, shapes)
            graph = fold_shapes(model, inputs, opset_of(model), keep_weights=True)
            known, nodes = shapes_of(model, graph, inputs), graph.node
        self._made_by = {output: node for node in nodes for output in node.output}
        # Engines name a layer after a node, or after the tensor that it makes.
        self._by_name = {**self._made_by, **{name_of(node): node for node in nodes}}
        self.heavy = [
            HeavyNode(name_of(node), computes)
            for node in nodes
            if node.op_type in HEAVY and (computes := _computes(node, known)) is not None
        ]

    def names_of(
        self, workloads: Iterable[Workload | None], changed_by_passes: bool = False
    ) -> list[str]:
        """The name of each workload's node, empty where none is known.

        The k-th of equal workloads is the k-th such node. Where there are more of one than of the
        other (a pass made or merged some), all of them stay without a name. A 1x1 convolution that
        is no such node may be a product beside an image. ``changed_by_passes`` names those that a
        pass has widened, too (512 -> 1008 is the node 512 -> 1000), and those that sum a part of a
        node's channels.
        """
        asked = list(workloads)
        names = kth_of_equal(map(layer_key, asked), [(n.computes, n.name) for n in self.heavy])
        unnamed = [None if name else product_of(w) for name, w in zip(names, asked, strict=True)]
        left = [(node.computes, node.name) for node in self.heavy if node.name not in names]
        products = kth_of_equal(unnamed, left)
        found = [name or product or "" for name, product in zip(names, products, strict=True)]
        if changed_by_passes:
            for count in (widens, count_of_parts):
                found = self._changed(asked, found, count)
        return found

    def _changed(
        self, asked: Sequence[Workload | None], names: Sequence[str], count: Count
    ) -> list[str]:
        """The names, with those of convolutions that a pass made of a node.

        ``count(node, layer)``: how many layers of one key it makes of a node of the other.

        Calls run in another order than the file has: a layer that may be two kinds of nodes, and a
        node that may be two kinds of layers, say nothing.
        """
        unnamed = [None if name else layer_key(w) for name, w in zip(names, asked, strict=True)]
        left = [(node.computes, node.name) for node in self.heavy if node.name not in names]
        kinds = {own for own, _ in left}
        pairs = {(key, own) for key in {*unnamed} for own in kinds if count(own, key)}
        keys, owns = (Counter(side) for side in zip(*pairs, strict=True)) if pairs else ({}, {})
        sure = {key: own for key, own in pairs if keys[key] == owns[own] == 1}
        made = {own: int(count(own, key)) for key, own in sure.items()}
        there = [(own, name) for own, name in left for _ in range(made.get(own, 1))]
        found = kth_of_equal([sure.get(key) for key in unnamed], there)
        return [name or changed or "" for name, changed in zip(names, found, strict=True)]

    def heavy_behind(self, names: Iterable[str]) -> str:
        """The convolution or product among nodes that were fused, or right before them.

        ``names`` are an engine's names of them. Empty where there is none.
        """
        found = [node for name in names if (node := self._by_name.get(name)) is not None]
        for node in found:
            while node is not None and node.op_type not in HEAVY:
                makers = [self._made_by[name] for name in node.input if name in self._made_by]
                node = makers[0] if makers else None
            if node is not None:
                return name_of(node)
        return ""


def name_of(node: onnx.NodeProto) -> str:
    """Its name; its first output's where it has none, as engines name it."""
    return str(node.name or node.output[0])


def _computes(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> Hashable | None:
    read, weight, made = (
        shapes.get(name) for name in (node.input[0], node.input[1], node.output[0])
    )
    if read is None or weight is None or made is None:
        return None
    if node.op_type in PRODUCTS:
        rows = prod(made[:-1])
        return product_key(rows, prod(read) // max(1, rows), made[-1])
    if len(made) != 4:
        return None
    return conv_key(read, made, weight[2:])
