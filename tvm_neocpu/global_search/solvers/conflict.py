"""The error for a problem without a finite choice: it names the nodes and edges in conflict."""

from __future__ import annotations

import numpy as np

from tvm_neocpu.core.errors import UnsatisfiableError
from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import Costs, Edge, LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.simplify.consistency import Wipeout, drop_impossible
from tvm_neocpu.global_search.solvers.pbqp import decide

# Seconds for shortening the list of edges.
SHORTENING_TIME = 2.0
LISTED_EDGES = 6


def unsatisfiable(problem: LayoutProblem) -> UnsatisfiableError:
    """The error, to be raised by the caller, for a problem in which every choice is forbidden."""
    wipeout = drop_impossible(CostGraph.of(problem))
    if wipeout is not None:
        return UnsatisfiableError(_describe_wipeout(problem, wipeout))
    edges = conflicting_edges(problem, Deadline.after(SHORTENING_TIME))
    listed = [_edge_name(problem, edge) for edge in edges[:LISTED_EDGES]]
    more = len(edges) - len(listed)
    tail = f" and {more} more edges" if more else ""
    return UnsatisfiableError(
        f"no choice of candidates satisfies all of {', '.join(listed)}{tail}; "
        "allow a layout transform on one of them"
    )


def conflicting_edges(problem: LayoutProblem, deadline: Deadline) -> list[Edge]:
    """Edges that no choice satisfies together. Without any one of them, some choice does.

    The search leaves out halves of the edges, then quarters, down to single edges, and keeps what
    stays unsatisfiable. If the deadline ends it, the list may hold edges that are not needed.
    """
    core = [edge for edge, matrix in problem.edge_costs.items() if np.isinf(matrix).any()]
    size = len(core)
    while size >= 1:
        start = 0
        while start < len(core) and not deadline.passed:
            rest = core[:start] + core[start + size :]
            if _may_be_satisfied(problem, rest, deadline):
                start += size
            else:
                core = rest
        size //= 2
    return core


def _may_be_satisfied(problem: LayoutProblem, edges: list[Edge], deadline: Deadline) -> bool:
    """Whether some choice avoids the forbidden pairs of these edges; True if time runs out."""
    graph = CostGraph()
    for i in sorted({end for edge in edges for end in edge}):
        graph.costs[i] = _only_forbidden(problem.node_costs[i])
        graph.labels[i] = np.arange(graph.costs[i].size)
        graph.edges[i] = {}
    for i, j in edges:
        graph.add_edge(i, j, _only_forbidden(problem.edge_costs[i, j]))
    try:
        return decide(graph, deadline) is not None
    except SearchLimitError:
        return True


def _only_forbidden(costs: Costs) -> Costs:
    return np.where(np.isinf(costs), np.inf, 0.0)


def _describe_wipeout(problem: LayoutProblem, wipeout: Wipeout) -> str:
    name = problem.names[wipeout.node]
    if wipeout.neighbour is None:
        return f"{name}: every candidate costs infinity; allow one of them"
    edge = _edge_name(problem, (wipeout.node, wipeout.neighbour))
    return f"{name}: no candidate is left; the edge {edge} forbids the last one"


def _edge_name(problem: LayoutProblem, edge: Edge) -> str:
    i, j = sorted(edge)
    return f"{problem.names[i]} - {problem.names[j]}"
