"""Names for the tensors that stand in place of a node, as no other tensor has them."""

from __future__ import annotations

import onnx

from tvm_neocpu.frontend.nodes import all_nodes, nested_graphs


class FreshNames:
    """Gives each name once; a name that is taken gets underscores.

    A nested graph asks :meth:`inside`: what it takes is free around it.
    """

    def __init__(self, *graphs: onnx.GraphProto, around: FreshNames | None = None) -> None:
        self._taken = {name for graph in graphs for name in _names_of(graph)}
        self._around = around

    def __call__(self, name: str) -> str:
        while self._has(name):
            name += "_"
        self._taken.add(name)
        return name

    def inside(self) -> FreshNames:
        return FreshNames(around=self)

    def _has(self, name: str) -> bool:
        return name in self._taken or (self._around is not None and self._around._has(name))


def _names_of(graph: onnx.GraphProto) -> set[str]:
    """What a graph and those nested in it call their tensors."""
    nodes = list(all_nodes(graph))
    graphs = [graph, *(inner for node in nodes for inner in nested_graphs(node))]
    names = {name for node in nodes for name in node.output}
    names.update(tensor.name for each in graphs for tensor in each.initializer)
    names.update(value.name for each in graphs for value in each.input)
    return names
