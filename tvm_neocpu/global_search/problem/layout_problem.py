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
    """Pick one candidate per node so that the sum of node costs and edge costs is minimal.

    A node is a convolution or a join. A candidate is one scheme of its node. An edge carries the
    layout transform between two nodes (NeoCPU, section 3.3.2). A problem of two nodes:

        node 0          edge (0, 1)            node 1
        [1, 4]          [[0, 8], [8, 0]]       [9, 2]

        (0, 1), the two fastest schemes, costs 1 + 8 + 2 = 11; the optimum (1, 1) costs 4 + 0 + 2.

    All costs share one unit, for example seconds. Costs may be negative. `+inf` forbids a candidate
    or a pair of candidates.

    node_costs: `node_costs[i]` has shape `(k_i,)`, one cost per candidate.
    edge_costs: a mapping from `(i, j)` to a matrix of shape `(k_i, k_j)`, or an iterable of
        `((i, j), matrix)`. Parallel edges are summed. A matrix at `(j, i)` is transposed and added
        to `(i, j)`. The diagonal of a matrix at `(i, i)` is added to the costs of node `i`.
    names: one per node, for messages; the default is `node 0`, `node 1`, ...

    The arrays are copies and read-only. `edge_costs` holds every pair once, as `(i, j)`, `i < j`.

    Raises InvalidProblemError for nan or -inf, for costs that are no numbers or have a wrong shape,
    for an empty candidate list, for an edge to a node that does not exist, for a wrong number of
    names, and for costs so large that their sum overflows.
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
        """The total cost of taking candidate `choice[i]` at every node `i`; may be +inf.

        Raises InvalidProblemError for a choice of wrong length or with an unknown candidate.
        """
        if len(choice) != len(self):
            raise InvalidProblemError(
                f"{len(choice)} choices given for {len(self)} nodes; give one each"
            )
        for i, candidate in enumerate(choice):
            if not 0 <= candidate < self.node_costs[i].size:
                raise InvalidProblemError(
                    f"{self.names[i]}: there is no candidate {candidate}; "
                    f"the last one is {self.node_costs[i].size - 1}"
                )
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
            raise InvalidProblemError(
                f"edge ({i}, {j}): there is no node {end} among {count}; indices count from 0"
            )
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
    # A finite total that overflows to infinity would look forbidden.
    largest = [np.abs(array[np.isfinite(array)]).max(initial=0.0) for array in arrays]
    if not math.isfinite(sum(map(float, largest))):
        raise InvalidProblemError("the costs are too large to add up; scale them down")


def _frozen(array: Costs) -> Costs:
    array.flags.writeable = False
    return array
