"""Solve a kernel: a connected graph that no exact reduction makes smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_neocpu.global_search.problem.cost_graph import CostGraph
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import RELATIVE_TOLERANCE, is_closed
from tvm_neocpu.global_search.simplify.fixpoint import simplify
from tvm_neocpu.global_search.solvers.dp import MAX_ENTRIES, eliminate
from tvm_neocpu.global_search.solvers.elimination_order import plan_elimination
from tvm_neocpu.global_search.solvers.local_improvement import improve
from tvm_neocpu.global_search.solvers.lower_bound import affordable, tighten
from tvm_neocpu.global_search.solvers.milp import MAX_PAIRS, branch_and_cut, count_pairs
from tvm_neocpu.global_search.solvers.pbqp import good_choice

# Dynamic programming sums about half a billion entries a second.
SECONDS_PER_ENTRY = 2e-9
EASY_WORK = 2e7
# Beyond this HiGHS was not seen to improve on what it was given within the default time limit.
MAX_MILP_PAIRS = 60_000
BOUND_ROUNDS = 300
KICKS = 60
LAST_KICKS = 100


@dataclass(frozen=True)
class Answer:
    """Labels, their cost, a lower bound on it, whether it is proven, and by which engine.

    If every choice is forbidden then the cost is +inf.
    """

    chosen: dict[int, int]
    cost: float
    lower_bound: float
    exact: bool
    engine: str


FORBIDDEN = Answer({}, math.inf, math.inf, True, "pbqp")


def solve_irreducible(kernel: CostGraph, deadline: Deadline) -> Answer:
    """Dynamic programming if that is cheap, else a bound and a heuristic that close in on the rest.

    Raises SearchLimitError if no finite choice was found by the deadline.
    """
    easy = _by_elimination(kernel, kernel, EASY_WORK, deadline)
    if easy is not None:
        return easy
    tightened = kernel.copy()
    bound = tighten(tightened, deadline.share(0.25), BOUND_ROUNDS)
    best = _by_heuristic(kernel, tightened, bound, deadline.share(0.4))
    if best is not None and best.exact:
        return best
    rest = _worth_a_look(tightened, bound, math.inf if best is None else best.cost)
    if rest is None:
        return FORBIDDEN if best is None else replace(best, lower_bound=best.cost, exact=True)
    exact = _by_elimination(kernel, rest, 0.5 * deadline.remaining / SECONDS_PER_ENTRY, deadline)
    if exact is not None:
        return exact
    if count_pairs(rest) <= (MAX_PAIRS if best is None else MAX_MILP_PAIRS):
        best = _by_milp(kernel, rest, best, bound, deadline)
    elif best is not None:
        best = _by_more_kicks(tightened, best, deadline)
    if best is None:
        raise SearchLimitError("auto: found no finite choice in time; raise the time limit")
    return best


def _by_elimination(
    kernel: CostGraph, graph: CostGraph, max_work: float, deadline: Deadline
) -> Answer | None:
    """Dynamic programming on `graph`, the kernel or what pruning left of it; None declines."""
    plan = plan_elimination(graph, MAX_ENTRIES, max_work)
    chosen = None if plan is None else eliminate(graph, plan, deadline)
    if chosen is None:
        return None
    full = graph.complete(chosen)
    cost = kernel.cost(kernel.to_places(full))
    return Answer(full, cost, cost, True, "dp")


def _by_heuristic(
    kernel: CostGraph, tightened: CostGraph, bound: float, deadline: Deadline
) -> Answer | None:
    """PBQP and local improvement, proven if they meet the bound; None if they found nothing."""
    try:
        places = good_choice(kernel, tightened, bound, deadline, KICKS)
    except SearchLimitError:
        return None
    if places is None:
        return FORBIDDEN
    cost = kernel.cost(places)
    chosen = kernel.to_labels(places)
    return Answer(chosen, cost, min(cost, bound), is_closed(cost, bound), "pbqp")


def _worth_a_look(tightened: CostGraph, bound: float, cost: float) -> CostGraph | None:
    """The graph without candidates that no choice as cheap as the known one has.

    None if that leaves no choice at all.
    """
    rest = tightened.copy()
    budget = cost + RELATIVE_TOLERANCE * abs(cost)
    keep = {node: affordable(tightened, node, bound, budget) for node in tightened.costs}
    for node, mask in keep.items():
        rest.restrict(node, mask)
    return rest if simplify(rest) else None


def _by_milp(
    kernel: CostGraph, rest: CostGraph, best: Answer | None, bound: float, deadline: Deadline
) -> Answer | None:
    """Branch and cut on what is left: the better of its choice and the known one, if any."""
    result = branch_and_cut(rest, deadline)
    found = [] if best is None else [(best.cost, best.chosen)]
    if result.chosen is not None:
        full = rest.complete(result.chosen)
        found.append((kernel.cost(kernel.to_places(full)), full))
    if not found and not result.finished:
        return None
    cost, chosen = min(found, key=lambda pair: pair[0], default=(math.inf, {}))
    if result.finished:
        return Answer(chosen, cost, cost, True, "milp")
    bound = max(bound, min(cost, result.lower_bound))
    return Answer(chosen, cost, min(cost, bound), is_closed(cost, bound), "milp")


def _by_more_kicks(graph: CostGraph, best: Answer, deadline: Deadline) -> Answer:
    """Local improvement for the time that is left."""
    places = improve(
        graph, graph.to_places(best.chosen), best.lower_bound, deadline, LAST_KICKS, seed=1
    )
    cost = graph.cost(places)
    closed = is_closed(cost, best.lower_bound)
    return replace(best, chosen=graph.to_labels(places), cost=cost, exact=closed)
