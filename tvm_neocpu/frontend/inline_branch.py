"""Put the nodes of the branch that an ``If`` takes in place of the ``If``."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper


def inlined_branch(node: onnx.NodeProto, branch: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The branch's weights as Constant nodes, its nodes, and Identity nodes for the If's results.

    Names of the branch get a prefix, because branches of two Ifs may use the same ones.
    """
    constants = [
        helper.make_node("Constant", [], [tensor.name], value=tensor)
        for tensor in branch.initializer
    ]
    inner = [*constants, *branch.node]
    prefix = f"{node.output[0]}/"
    names = {name: prefix + name for each in inner for name in each.output if name}
    results = [
        helper.make_node("Identity", [names.get(value.name, value.name)], [result])
        for value, result in zip(branch.output, node.output, strict=False)
        if result
    ]
    return [*(_renamed(each, names) for each in inner), *results]


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of the node. What a nested graph defines itself hides the names outside."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for attribute in copy.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
            _rename_inside(graph, names)
    return copy


def _rename_inside(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    own = {entry.name for entry in (*graph.input, *graph.initializer)}
    own |= {name for node in graph.node for name in node.output}
    outside = {name: new for name, new in names.items() if name not in own}
    nodes = [_renamed(node, outside) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.output:
        value.name = outside.get(value.name, value.name)
