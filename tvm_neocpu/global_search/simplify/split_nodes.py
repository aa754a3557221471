"""Split nodes into what they read and what they write, so that frontiers stay narrow.

A convolution has as many candidates as pairs of layouts, but each neighbour sees one layout of the
pair only. Tables over frontiers of layouts are small where tables over pairs of them are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_neocpu.global_search.problem.layout_problem import Costs, Edge, LayoutProblem

Classes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class _End:
    """What an edge is tied to: a node of the new problem, and which candidates stand for it."""

    node: int
    representatives: Classes


def split_nodes(
    problem: LayoutProblem, partitions: Mapping[int, Sequence[Sequence[int]]]
) -> LayoutProblem:
    """The same problem, where edges are tied to classes of candidates that they cannot tell apart.

    `partitions[i]` proposes partitions of node `i`'s candidates, each as one class number per
    candidate. An edge whose costs are alike within the classes is tied to a further node, of the
    classes, which must agree with node `i`. The first nodes, their costs and the optimum stay.
    """
    splitter = _Splitter(problem, partitions)
    edges = [splitter.split(edge, matrix) for edge, matrix in problem.edge_costs.items()]
    nodes = [*problem.node_costs, *splitter.class_costs]
    names = [*problem.names, *splitter.class_names]
    return LayoutProblem(nodes, [*splitter.ties.items(), *edges], names=names)


class _Splitter:
    def __init__(
        self, problem: LayoutProblem, partitions: Mapping[int, Sequence[Sequence[int]]]
    ) -> None:
        self.problem = problem
        self.partitions = {i: [_numbered(p) for p in some] for i, some in partitions.items()}
        self.class_costs: list[Costs] = []
        self.class_names: list[str] = []
        self.ties: dict[Edge, Costs] = {}
        self._known: dict[tuple[int, int], _End] = {}

    def split(self, edge: Edge, matrix: Costs) -> tuple[Edge, Costs]:
        i, j = edge
        rows, columns = self._end(i, matrix), self._end(j, matrix.T)
        smaller = matrix[np.ix_(rows.representatives, columns.representatives)]
        return (rows.node, columns.node), smaller

    def _end(self, node: int, matrix: Costs) -> _End:
        for number, classes in enumerate(self.partitions.get(node, ())):
            first = np.unique(classes, return_index=True)[1]
            if first.size < classes.size and np.array_equal(matrix, matrix[first[classes]]):
                return self._class_node(node, number, classes, first)
        return _End(node, np.arange(matrix.shape[0]))

    def _class_node(self, node: int, number: int, classes: Classes, first: Classes) -> _End:
        key = (node, number)
        if key not in self._known:
            added = len(self.problem) + len(self.class_costs)
            self.class_costs.append(np.zeros(first.size))
            self.class_names.append(f"{self.problem.names[node]}, part {number}")
            agrees = classes[:, None] == np.arange(first.size)
            self.ties[node, added] = np.where(agrees, 0.0, np.inf)
            self._known[key] = _End(added, first)
        return self._known[key]


def _numbered(partition: Sequence[int]) -> Classes:
    """Class numbers from 0 without gaps."""
    classes: Classes = np.unique(np.asarray(partition), return_inverse=True)[1]
    return classes
