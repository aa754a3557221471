"""Nodes in an order in which each stands behind those whose results it reads, as ONNX wants it.

ONNX Runtime sorts a file's own graph, and its converter to float16 writes files that need it: the
casts of inputs stand behind everything.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import onnx

from tvm_neocpu.frontend.nodes import all_nodes, nested_graphs


def sort_nodes(model: onnx.ModelProto) -> None:
    """Sort the graph's nodes in place where they are not; others keep their order."""
    order = _order(model.graph.node)
    if order is not None:
        nodes = [model.graph.node[at] for at in order]
        del model.graph.node[:]
        model.graph.node.extend(nodes)


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself if its nodes are sorted, or a copy in which they are."""
    if _order(model.graph.node) is None:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    sort_nodes(copy)
    return copy


def _order(nodes: Sequence[onnx.NodeProto]) -> list[int] | None:
    """Places of the nodes as they should stand; ``None`` where they do, or form a circle."""
    maker = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    before = [{maker[name] for name in _reads(node) if name in maker} for node in nodes]
    if all(max(makers, default=-1) < at for at, makers in enumerate(before)):
        return None
    readers: list[list[int]] = [[] for _ in nodes]
    for at, makers in enumerate(before):
        for each in makers:
            readers[each].append(at)
    waiting = [len(makers) for makers in before]
    ready = [at for at, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(nodes) else None


def _reads(node: onnx.NodeProto) -> set[str]:
    """What the node reads, and the graphs in it from around them."""
    graphs = list(nested_graphs(node))
    inner = (name for graph in graphs for each in all_nodes(graph) for name in each.input)
    return {*node.input, *inner, *(value.name for graph in graphs for value in graph.output)}
