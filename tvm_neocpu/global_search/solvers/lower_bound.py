"""A lower bound on every choice, by moving costs between edges and nodes.

Costs may be moved from a row of an edge to the candidate of its node and back without changing what
any choice costs. The sum of all minima, each node and each edge by itself, never exceeds the
optimum, and the moves are made so that it grows: sequential tree-reweighted message passing
(Kolmogorov 2006), written as in his later SRMP (2015).
"""

from __future__ import annotations

from tvm_neocpu.global_search.problem.cost_graph import CostGraph, Mask
from tvm_neocpu.global_search.problem.layout_problem import Costs
from tvm_neocpu.global_search.problem.limits import Deadline

# A round that gains less than this part of what all rounds have gained is the last.
STALL = 1e-4


def independent_minima(graph: CostGraph) -> float:
    """The bound that the costs give as they stand."""
    nodes = sum(float(costs.min()) for costs in graph.costs.values())
    edges = sum(float(matrix.min()) for _, _, matrix in graph.edge_list())
    return graph.constant + nodes + edges


def tighten(graph: CostGraph, deadline: Deadline, rounds: int) -> float:
    """Move the graph's costs to where their bound is high; return the bound.

    Every choice costs what it did. The graph has to be arc consistent. At least one round is made,
    each of them a sweep forwards and a sweep backwards.
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
    """Copy the edges, for a sweep writes to them in place."""
    for i, j, matrix in graph.edge_list():
        graph.edges[i][j] = matrix.copy(order="C")
        graph.edges[j][i] = graph.edges[i][j].T


def _sweep(graph: CostGraph, order: list[int]) -> None:
    """Each node collects what its edges can give, and hands shares to the edges ahead."""
    turn = {node: k for k, node in enumerate(order)}
    for node in order:
        links = graph.edges[node]
        costs = graph.costs[node]
        least = {j: matrix.min(axis=1) for j, matrix in links.items()}
        for taken in least.values():
            costs = costs + taken
        ahead = [j for j in links if turn[j] > turn[node]]
        share = costs / max(len(ahead), len(links) - len(ahead), 1)
        graph.costs[node] = costs - len(ahead) * share if ahead else costs
        for j in links:
            links[j] -= least[j][:, None]
        for j in ahead:
            links[j] += share[:, None]


def affordable(graph: CostGraph, node: int, bound: float, budget: float) -> Mask:
    """Mark the candidates that some choice within the budget may take.

    bound: what `independent_minima` gives for the graph.
    """
    costs = graph.costs[node]
    least: Costs = costs - costs.min()
    for matrix in graph.edges[node].values():
        rows = matrix.min(axis=1)
        least = least + (rows - rows.min())
    return bound + least <= budget
