"""The working copy of a layout problem: solvers remove nodes, then choose for them in reverse.

    a - b - c      reduce and take out b      a - c      solve, choose a and c, then b beside them
                                              trail: b

A *label* numbers a candidate as the problem does. A *place* is its position among the candidates
that remain. With labels [0, 2, 5], label 5 is at place 2.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tvm_neocpu.global_search.problem.layout_problem import Costs, LayoutProblem

Labels: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Eliminated:
    """A node that was taken out, and what choosing for it needs once its neighbours are chosen.

    `links[j]` is the cost matrix to neighbour `j`, of shape `(len(labels), k)`. Its columns are the
    candidates that `j` had when the node was taken out: `neighbour_labels[j]`, of length `k`.
    """

    node: int
    costs: Costs
    labels: Labels
    links: dict[int, Costs]
    neighbour_labels: dict[int, Labels]

    def best_label(self, chosen: dict[int, int]) -> int:
        """The label of the cheapest candidate, given the labels of the neighbours."""
        total = self.costs
        for j, matrix in self.links.items():
            total = total + matrix[:, np.searchsorted(self.neighbour_labels[j], chosen[j])]
        return int(self.labels[np.argmin(total)])


@dataclass
class CostGraph:
    """The costs of the remaining candidates of the remaining nodes.

    `labels[i]` holds node `i`'s remaining candidates in ascending order, shape `(k_i,)`. `costs[i]`
    has the same order and shape. `edges[i][j]` has shape `(k_i, k_j)`; `edges[j][i]` is its
    transposed view. `constant` is the cost of what was decided already. `trail` lists the nodes
    that were taken out, the last one last.

    An array is replaced and never written to, because copies share it.
    """

    costs: dict[int, Costs] = field(default_factory=dict)
    labels: dict[int, Labels] = field(default_factory=dict)
    edges: dict[int, dict[int, Costs]] = field(default_factory=dict)
    constant: float = 0.0
    trail: list[Eliminated] = field(default_factory=list)

    @classmethod
    def of(cls, problem: LayoutProblem) -> CostGraph:
        """The graph of a whole problem."""
        graph = cls()
        for i, costs in enumerate(problem.node_costs):
            graph.costs[i] = costs
            graph.labels[i] = np.arange(costs.size)
            graph.edges[i] = {}
        for (i, j), matrix in problem.edge_costs.items():
            graph.add_edge(i, j, matrix)
        return graph

    def copy(self) -> CostGraph:
        """An independent graph that shares the arrays."""
        edges = {i: dict(links) for i, links in self.edges.items()}
        labels, trail = dict(self.labels), list(self.trail)
        return CostGraph(dict(self.costs), labels, edges, self.constant, trail)

    def part(self, nodes: Collection[int]) -> CostGraph:
        """The subgraph that `nodes` induce, without trail and constant."""
        inside = set(nodes)
        part = CostGraph()
        for i in nodes:
            part.costs[i] = self.costs[i]
            part.labels[i] = self.labels[i]
            part.edges[i] = {j: m for j, m in self.edges[i].items() if j in inside}
        return part

    def edge_list(self) -> list[tuple[int, int, Costs]]:
        """Every edge once."""
        return [(i, j, m) for i, links in self.edges.items() for j, m in links.items() if i < j]

    def has_forbidden(self) -> bool:
        """Whether any cost is infinite."""
        if any(np.isinf(costs).any() for costs in self.costs.values()):
            return True
        return any(np.isinf(matrix).any() for _, _, matrix in self.edge_list())

    def add_cost(self, node: int, costs: Costs) -> None:
        """Add costs of shape `(k,)` to those of a node."""
        self.costs[node] = self.costs[node] + costs

    def add_edge(self, i: int, j: int, matrix: Costs) -> None:
        """Add a matrix of shape `(k_i, k_j)` to the edge between two nodes, new or old."""
        total = self.edges[i][j] + matrix if j in self.edges[i] else matrix
        self.edges[i][j] = total
        self.edges[j][i] = total.T

    def restrict(self, node: int, keep: Mask) -> None:
        """Drop the candidates of a node where `keep`, of shape `(k,)`, is False."""
        self.costs[node] = self.costs[node][keep]
        self.labels[node] = self.labels[node][keep]
        for j, matrix in self.edges[node].items():
            self.edges[node][j] = matrix[keep]
            self.edges[j][node] = self.edges[node][j].T

    def take_out(self, node: int, decided_by: Collection[int] | None = None) -> Eliminated:
        """Remove a node and its edges, and note on the trail how to choose for it later.

        decided_by: the neighbours whose choice decides for the node; by default all of them.
        """
        links = self.edges.pop(node)
        for j in links:
            del self.edges[j][node]
        deciding = links if decided_by is None else {j: links[j] for j in decided_by}
        eliminated = Eliminated(
            node,
            self.costs.pop(node),
            self.labels.pop(node),
            deciding,
            {j: self.labels[j] for j in deciding},
        )
        self.trail.append(eliminated)
        return eliminated

    def complete(self, chosen: dict[int, int]) -> dict[int, int]:
        """The label of every node, given the labels of the remaining nodes."""
        full = dict(chosen)
        for eliminated in reversed(self.trail):
            full[eliminated.node] = eliminated.best_label(full)
        return full

    def cost(self, places: dict[int, int]) -> float:
        """The cost of a choice for the remaining nodes, given as places; includes the constant."""
        total = self.constant
        for i, costs in self.costs.items():
            total += float(costs[places[i]])
        for i, j, matrix in self.edge_list():
            total += float(matrix[places[i], places[j]])
        return total

    def to_labels(self, places: dict[int, int]) -> dict[int, int]:
        """A choice given as places, as labels."""
        return {i: int(self.labels[i][place]) for i, place in places.items()}

    def to_places(self, chosen: dict[int, int]) -> dict[int, int]:
        """A choice given as labels, as places: the inverse of `to_labels`."""
        return {i: int(np.searchsorted(self.labels[i], label)) for i, label in chosen.items()}


def components(graph: CostGraph) -> list[list[int]]:
    """The connected components of the remaining nodes."""
    groups: list[list[int]] = []
    seen: set[int] = set()
    for start in graph.costs:
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for node in group:  # the loop appends to the list it walks
            fresh = [j for j in graph.edges[node] if j not in seen]
            seen.update(fresh)
            group.extend(fresh)
        groups.append(group)
    return groups
