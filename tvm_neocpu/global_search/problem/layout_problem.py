"""The layout problem as numbers: one cost vector per node, one cost matrix per edge."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tvm_neocpu.core.errors import InvalidProblemError

Costs: TypeAlias = npt.NDArray[np.float64]
Edge: TypeAlias = tuple[int, int]
EdgeCosts: TypeAlias = Mapping[Edge, npt.ArrayLike] | Iterable[tuple[Edge, npt.ArrayLike]]


class LayoutProblem:
    """Pick one candidate per node so that node costs plus edge costs are least.

    A node is a convolution or a join, a candidate is a scheme of it, an edge carries the layout
    transform between two nodes (NeoCPU, section 3.3.2). Costs are in any one unit (seconds, say);
    negative ones are allowed and `+inf` forbids a candidate or a pair.

    node_costs: `node_costs[i]` has shape `(k_i,)`.
    edge_costs: a mapping from `(i, j)` to a matrix of shape `(k_i, k_j)`, or pairs of the two.
        Parallel edges are summed, `(j, i)` is turned and added to `(i, j)`, and the diagonal of
        `(i, i)` is added to node `i`.
    names: one per node, for messages; `node 7` where there is none.

    Raises InvalidProblemError for nan, -inf, wrong shapes, empty candidate lists, unknown nodes.
    The arrays are copied and read-only; `edge_costs` keeps every pair once, as `i < j`.
    """

    def __init__(
        self,
        node_costs: Sequence[npt.ArrayLike],
        edge_costs: EdgeCosts = (),
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        self.names = _node_names(names, len(node_costs))
        nodes = [_node_vector(costs, self.names[i]) for i, costs in enumerate(node_costs)]
        edges: dict[Edge, Costs] = {}
        for (i, j), matrix in _labelled_matrices(edge_costs, nodes):
            if i == j:
                nodes[i] = nodes[i] + np.diagonal(matrix)
                continue
            key, turned = ((i, j), matrix) if i < j else ((j, i), matrix.T)
            edges[key] = edges[key] + turned if key in edges else turned
        _refuse_overflow([*nodes, *edges.values()])
        self.node_costs = tuple(_frozen(costs) for costs in nodes)
        self.edge_costs = MappingProxyType({key: _frozen(edges[key]) for key in sorted(edges)})

    def __len__(self) -> int:
        return len(self.node_costs)

    def __repr__(self) -> str:
        widest = max((costs.size for costs in self.node_costs), default=0)
        return f"LayoutProblem({len(self)} nodes, {len(self.edge_costs)} edges, <= {widest} each)"

    def cost(self, choice: Sequence[int]) -> float:
        """The total cost of taking candidate `choice[i]` at every node `i`; may be +inf."""
        if len(choice) != len(self):
            raise InvalidProblemError(f"{len(choice)} choices given for {len(self)} nodes")
        for i, candidate in enumerate(choice):
            if not 0 <= candidate < self.node_costs[i].size:
                raise InvalidProblemError(f"{self.names[i]}: there is no candidate {candidate}")
        on_nodes = sum(
            (float(c[x]) for c, x in zip(self.node_costs, choice, strict=True)), start=0.0
        )
        on_edges = sum(float(m[choice[i], choice[j]]) for (i, j), m in self.edge_costs.items())
        return on_nodes + on_edges


def _node_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"node {i}" for i in range(count))
    if len(names) != count:
        raise InvalidProblemError(f"{len(names)} names given for {count} nodes; give one each")
    return tuple(names)


def _node_vector(costs: npt.ArrayLike, name: str) -> Costs:
    vector = _numbers(costs, name)
    if vector.ndim != 1:
        raise InvalidProblemError(f"{name}: costs must be 1-D, not of shape {vector.shape}")
    if vector.size == 0:
        raise InvalidProblemError(f"{name}: the candidate list is empty; give at least one cost")
    return vector


def _labelled_matrices(edge_costs: EdgeCosts, nodes: list[Costs]) -> Iterable[tuple[Edge, Costs]]:
    pairs = edge_costs.items() if isinstance(edge_costs, Mapping) else edge_costs
    for edge, costs in pairs:
        i, j = _endpoints(edge, len(nodes))
        matrix = _numbers(costs, f"edge ({i}, {j})")
        expected = (nodes[i].size, nodes[j].size)
        if matrix.shape != expected:
            raise InvalidProblemError(
                f"edge ({i}, {j}): costs must be of shape {expected}, not {matrix.shape}"
            )
        yield (i, j), matrix


def _endpoints(edge: Any, count: int) -> Edge:
    try:
        i, j = (operator.index(end) for end in edge)
    except (TypeError, ValueError) as error:
        raise InvalidProblemError(f"edge {edge!r}: not a pair of node indices") from error
    for end in (i, j):
        if not 0 <= end < count:
            raise InvalidProblemError(f"edge ({i}, {j}): there is no node {end} among {count}")
    return i, j


def _numbers(costs: npt.ArrayLike, where: str) -> Costs:
    try:
        array = np.array(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidProblemError(f"{where}: costs are not an array of numbers") from error
    if np.isnan(array).any():
        raise InvalidProblemError(f"{where}: a cost is nan; use +inf to forbid a candidate")
    if np.isneginf(array).any():
        raise InvalidProblemError(f"{where}: a cost is -inf; only +inf is allowed")
    return array


def _refuse_overflow(arrays: list[Costs]) -> None:
    # A finite total that overflows would look forbidden.
    largest = [np.abs(array[np.isfinite(array)]).max(initial=0.0) for array in arrays]
    if not math.isfinite(sum(map(float, largest))):
        raise InvalidProblemError("the costs are too large to be added up; scale them down")


def _frozen(array: Costs) -> Costs:
    array.flags.writeable = False
    return array
