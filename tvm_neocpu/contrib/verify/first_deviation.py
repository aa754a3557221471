"""The first operation whose result differs, found by halving the network.

A network that ends at some operation is compiled by itself and compared. The right part becomes
longer and the wrong one shorter, until one operation is left between them: some ten compilations
for a network of a thousand operations. What the whole network fuses with its successors may be
fused otherwise in a part of it, so that a fault of fusion may not show; then nothing is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx
from onnx import helper, shape_inference

from tvm_neocpu.contrib.verify.compare_outputs import Arrays, Engine, OutputCheck, check_outputs
from tvm_neocpu.core.errors import NeoCpuError


@dataclass(frozen=True)
class Deviation:
    """An operation of the ONNX model, and the result of it that differs."""

    node: str
    operator: str
    check: OutputCheck


def first_deviation(
    model: onnx.ModelProto,
    inputs: Arrays,
    ours: Engine,
    reference: Engine,
    tolerance: float,
    tell: Callable[[str], None] = lambda _: None,
) -> Deviation | None:
    """The first operation that deviates; ``None`` if every part of the network is right.

    ``tell`` gets a line for each part that was compared. A part that an engine cannot run counts as
    right.
    """
    typed = shape_inference.infer_shapes(model)
    places = list(_comparable(typed))
    found: Deviation | None = None
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        node, value = places[middle]
        try:
            check = check_outputs(ending_at(typed, value), inputs, ours, reference, tolerance)[0]
        except NeoCpuError as error:
            tell(f"{_name(node)}: skipped, {error}")
            low = middle + 1
            continue
        tell(f"{_name(node)}: {check.error:.1e} of the largest value")
        if check.differs:
            found, high = Deviation(_name(node), node.op_type, check), middle
        else:
            low = middle + 1
    return found


def ending_at(model: onnx.ModelProto, value: onnx.ValueInfoProto) -> onnx.ModelProto:
    """The model with one tensor as its only output; inputs stay, also those not needed for it."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.output[:]
    part.graph.output.append(value)
    needed = {value.name}
    kept = []
    for node in reversed(part.graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(node.input) | _read_inside(node)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(kept)]
    weights = [weight for weight in part.graph.initializer if weight.name in needed]
    del part.graph.node[:]
    part.graph.node.extend(nodes)
    known = [onnx.TensorProto.FromString(weight.SerializeToString()) for weight in weights]
    del part.graph.initializer[:]
    part.graph.initializer.extend(known)
    return part


def _comparable(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, onnx.ValueInfoProto]]:
    """Operations with a first result of floats of known rank, in the model's order."""
    graph = model.graph
    types = {value.name: value for value in [*graph.value_info, *graph.output]}
    floats = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE}
    for node in graph.node:
        value = types.get(node.output[0])
        if node.op_type == "Constant" or value is None:
            continue
        if value.type.tensor_type.elem_type in floats:
            yield node, value


def _read_inside(node: onnx.NodeProto) -> set[str]:
    """Names that the branches and bodies of an operation read."""
    graphs = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    inner = [inside for graph in graphs for inside in graph.node]
    return {name for inside in inner for name in [*inside.input, *_read_inside(inside)]}


def _name(node: onnx.NodeProto) -> str:
    return node.name or helper.printable_node(node).split(" = ")[0]
