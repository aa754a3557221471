"""Partitioned boolean quadratic programming, known from register allocation; a fast heuristic.

It is that of Scholz and Eckstein (2002) and of Hames and Scholz (2006). NeoCPU (section 3.3.2) uses
it where dynamic programming is intractable. Nodes of degree 0 to 2 are reduced exactly (R0, RI,
RII). If no such node remains, the node with the most neighbours takes its locally best candidate
(RN), and the reductions go on.
"""

from __future__ import annotations

import numpy as np

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution, bounded, proven
from tvm_neocpu.global_search.simplify.fixpoint import settle
from tvm_neocpu.global_search.simplify.reductions import fix
from tvm_neocpu.global_search.solvers.local_improvement import Places, improve
from tvm_neocpu.global_search.solvers.lower_bound import tighten

BOUND_ROUNDS = 20
KICKS = 60
# Max seconds of local improvement. The paper's PBQP takes less than 10 seconds in all.
IMPROVEMENT_TIME = 5.0


def solve_pbqp(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """A good choice, proven optimal if no RN was needed; None if every choice is forbidden.

    The deadline ends the search for a finite choice, the tightening of the bound and the local
    improvement. The reductions are quick and run to their end. Raises SearchLimitError if no finite
    choice was found by the deadline.
    """
    graph = CostGraph.of(problem)
    if not settle(graph, graph.has_forbidden()):
        return None
    if not graph.costs:
        return proven(problem, graph.complete({}), "pbqp")
    tightened = graph.copy()
    bound = tighten(tightened, deadline.share(0.3), BOUND_ROUNDS)
    places = good_choice(graph, tightened, bound, deadline, KICKS)
    if places is None:
        return None
    return bounded(problem, graph.complete(graph.to_labels(places)), bound, "pbqp")


def good_choice(
    graph: CostGraph, tightened: CostGraph, bound: float, deadline: Deadline, kicks: int
) -> Places | None:
    """The places of a good choice: RN on two forms of the same costs, the better one improved.

    RN sees a node and its neighbours only. In the form `tightened`, costs have moved towards the
    nodes that they depend on. That mostly leads RN to better decisions, but not on small dense
    graphs. Returns None if every choice is forbidden.

    graph, tightened: equal costs for every choice. bound: a lower bound on them; a choice that
    meets it ends the improvement. kicks: how often the improvement starts anew.

    Raises SearchLimitError if no finite choice was found by the deadline.
    """
    found: list[Places] = []
    for form in (tightened, graph):
        decided = decide(form.copy(), deadline)
        if decided is None:
            return None
        chosen = decided.complete({})
        found.append(graph.to_places({i: chosen[i] for i in graph.costs}))
    best = min(found, key=graph.cost)
    return improve(graph, best, bound, deadline.at_most(IMPROVEMENT_TIME), kicks)


def decide(graph: CostGraph, deadline: Deadline) -> CostGraph | None:
    """Reduce a graph until every node is on its trail; None if every choice is forbidden.

    A decision that leaves some node without a finite candidate is taken back, and the node's next
    candidate is tried. Returns the reduced graph, which may be a copy of the given one. Raises
    SearchLimitError if the deadline passes before every node is on the trail.
    """
    forbidden = graph.has_forbidden()
    untried: list[tuple[CostGraph, int, list[int]]] = []
    alive = settle(graph, forbidden)
    while graph.costs or not alive:
        if alive:
            node = max(graph.costs, key=lambda i: len(graph.edges[i]))
            ranked = rank_candidates(graph, node)
        elif not untried:
            return None
        elif deadline.passed:
            raise SearchLimitError(
                "pbqp: found no choice without forbidden pairs in time; raise the time limit"
            )
        else:
            graph, node, ranked = untried.pop()
        if forbidden and len(ranked) > 1:
            untried.append((graph.copy(), node, ranked[1:]))
        alive = settle(graph, forbidden, fix(graph, node, ranked[0]))
    return graph


def rank_candidates(graph: CostGraph, node: int) -> list[int]:
    """The places of a node's candidates, cheapest first.

    A candidate is priced with each neighbour's best answer to it, other neighbours ignored.
    """
    total = graph.costs[node]
    for j, matrix in graph.edges[node].items():
        total = total + (matrix + graph.costs[j]).min(axis=1)
    return [int(place) for place in np.argsort(total, kind="stable")]
