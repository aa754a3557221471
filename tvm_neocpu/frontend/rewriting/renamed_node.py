"""Copies of nodes with other tensor names, nested graphs included."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tvm_neocpu.frontend.nodes import nested_graphs


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of the node. What a nested graph defines itself hides the names outside."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for graph in nested_graphs(copy):
        _rename_inside(graph, names)
    return copy


def _rename_inside(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    own = {entry.name for entry in (*graph.input, *graph.initializer)}
    own |= {name for node in graph.node for name in node.output}
    outside = {name: new for name, new in names.items() if name not in own}
    nodes = [renamed(node, outside) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.output:
        value.name = outside.get(value.name, value.name)
