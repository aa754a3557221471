"""Split nodes by what each neighbour can tell apart, so that tables over frontiers stay small.

A convolution has one candidate per pair (input layout, output layout), but each neighbour sees one
layout of the pair only. With 8 layouts a table has 8 entries per layout and 64 per convolution.

    before    a ------------- b          a and b have 64 candidates
    after     a - a_out - b_in - b       a_out: what a writes, b_in: what b reads; 8 classes each

The edges a - a_out and b_in - b only tie a candidate to its class: 0 inside, +inf outside.
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
    """One end of an edge: a node of the new problem, and one old candidate for each class."""

    node: int
    representatives: Classes


def split_nodes(
    problem: LayoutProblem, partitions: Mapping[int, Sequence[Sequence[int]]]
) -> LayoutProblem:
    """The same problem with further nodes, one for each partition that an edge can use.

    An edge can use a partition of a node if candidates of one class have the same costs on it.
    Such an edge then leads to the node of the classes. The old nodes keep their numbers and costs,
    and every choice for them keeps its best total cost.

    partitions: `partitions[i]` proposes partitions of node `i`'s candidates, each as a sequence of
        class numbers, one per candidate.
    """
    splitter = _Splitter(problem, partitions)
    edges = [splitter.split(edge, matrix) for edge, matrix in problem.edge_costs.items()]
    nodes = [*problem.node_costs, *splitter.class_costs]
    names = [*problem.names, *splitter.class_names]
    return LayoutProblem(nodes, [*splitter.ties.items(), *edges], names=names)


class _Splitter:
    """The nodes and ties that splitting adds."""

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
        """The edge between class nodes where possible, with one row and column per class."""
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
    """The partition with its classes numbered 0, 1, 2, ..."""
    classes: Classes = np.unique(np.asarray(partition), return_inverse=True)[1]
    return classes
