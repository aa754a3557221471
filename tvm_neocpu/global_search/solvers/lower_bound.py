"""A lower bound on the cost of every choice, by moving costs between edges and nodes.

The bound is the sum of the min of each node's costs and the min of each edge's matrix. It never
exceeds the optimum. Moving a cost from a row of a matrix to the candidate of that row, or back,
leaves the cost of every choice as it is, but changes the bound:

    node [1, 3], row minima of its edge [2, 0]    bound 1 + 0
    node [3, 3], row minima of its edge [0, 0]    bound 3 + 0

The moves are made so that the bound grows: sequential tree-reweighted message passing (Kolmogorov
2006), in the form of his SRMP (2015).
"""

from __future__ import annotations

from tvm_neocpu.global_search.problem.cost_graph import CostGraph, Mask
from tvm_neocpu.global_search.problem.layout_problem import Costs
from tvm_neocpu.global_search.problem.limits import Deadline

# The rounds end with one that gains less than this share of the gain of all rounds.
STALL = 1e-4


def independent_minima(graph: CostGraph) -> float:
    """The bound of the costs as they are, without moving any."""
    nodes = sum(float(costs.min()) for costs in graph.costs.values())
    edges = sum(float(matrix.min()) for _, _, matrix in graph.edge_list())
    return graph.constant + nodes + edges


def tighten(graph: CostGraph, deadline: Deadline, rounds: int) -> float:
    """Move the costs of a graph so that their bound grows; return the bound.

    The cost of every choice stays. The graph must be arc consistent. A round is a sweep over the
    nodes and a sweep back. At least one round is made, then at most `rounds` until the deadline.
    """
    _own_edges(graph)
    order = list(graph.costs)
    first = bound = independent_minima(graph)
    for _ in range(rounds):
        _sweep(graph, order)
        order.reverse()
        _sweep(graph, order)
        order.reverse()
        previous, bound = bound, independent_minima(graph)
        if deadline.passed or bound - previous <= STALL * (bound - first):
            break
    return bound


def _own_edges(graph: CostGraph) -> None:
    """Copy the matrices of the edges: a sweep writes to them in place."""
    for i, j, matrix in graph.edge_list():
        graph.edges[i][j] = matrix.copy(order="C")
        graph.edges[j][i] = graph.edges[i][j].T


def _sweep(graph: CostGraph, order: list[int]) -> None:
    """Each node takes the row minima of its edges, then gives shares to the edges ahead of it."""
    turn = {node: k for k, node in enumerate(order)}
    for node in order:
        links = graph.edges[node]
        costs = graph.costs[node]
        minima = {j: matrix.min(axis=1) for j, matrix in links.items()}
        for taken in minima.values():
            costs = costs + taken
        ahead = [j for j in links if turn[j] > turn[node]]
        share = costs / max(len(ahead), len(links) - len(ahead), 1)
        graph.costs[node] = costs - len(ahead) * share if ahead else costs
        for j in links:
            links[j] -= minima[j][:, None]
        for j in ahead:
            links[j] += share[:, None]


def affordable(graph: CostGraph, node: int, bound: float, budget: float) -> Mask:
    """Mark the candidates of a node that a choice within the budget may take: a mask `(k,)`.

    Every choice with an unmarked candidate costs more than `budget`.

    bound: `independent_minima(graph)`.
    """
    costs = graph.costs[node]
    excess: Costs = costs - costs.min()
    for matrix in graph.edges[node].values():
        rows = matrix.min(axis=1)
        excess = excess + (rows - rows.min())
    return bound + excess <= budget
