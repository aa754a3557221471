"""Solve an irreducible graph: a connected one that no exact reduction makes smaller.

1. dynamic programming, if its tables are small
2. a lower bound, and a choice by PBQP with local improvement; done if they meet
3. candidates that cannot be part of a cheaper choice are dropped, the rest reduced exactly
4. on the rest: dynamic programming if the time suffices, else branch and cut if it is small,
   else more local improvement
"""

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

# Dynamic programming forms about half a billion sums a second.
SECONDS_PER_ENTRY = 2e-9
# Stage 1 forms at most this many sums.
EASY_WORK = 2e7
# With more pairs HiGHS was never seen to improve on a known choice within the default time limit.
MAX_MILP_PAIRS = 60_000
BOUND_ROUNDS = 300
KICKS = 60
LAST_KICKS = 100


@dataclass(frozen=True)
class Answer:
    """A choice for one graph as labels, its cost, a lower bound, and the engine that found it.

    `exact` means proven optimal. A proven cost of +inf means that every choice is forbidden.
    """

    chosen: dict[int, int]
    cost: float
    lower_bound: float
    exact: bool
    engine: str


FORBIDDEN = Answer({}, math.inf, math.inf, True, "pbqp")


def solve_irreducible(graph: CostGraph, deadline: Deadline) -> Answer:
    """The optimum or the best choice found, by the stages above, and a lower bound.

    Raises SearchLimitError if no finite choice was found by the deadline.
    """
    easy = _by_elimination(graph, graph, EASY_WORK, deadline)
    if easy is not None:
        return easy
    tightened = graph.copy()
    bound = tighten(tightened, deadline.share(0.25), BOUND_ROUNDS)
    best = _by_heuristic(graph, tightened, bound, deadline.share(0.4))
    if best is not None and best.exact:
        return best
    rest = _pruned(tightened, bound, math.inf if best is None else best.cost)
    if rest is None:
        return FORBIDDEN if best is None else replace(best, lower_bound=best.cost, exact=True)
    exact = _by_elimination(graph, rest, 0.5 * deadline.remaining / SECONDS_PER_ENTRY, deadline)
    if exact is not None:
        return exact
    if count_pairs(rest) <= (MAX_PAIRS if best is None else MAX_MILP_PAIRS):
        best = _by_milp(graph, rest, best, bound, deadline)
    elif best is not None:
        best = _by_more_kicks(tightened, best, deadline)
    if best is None:
        raise SearchLimitError("auto: found no finite choice in time; raise the time limit")
    return best


def _by_elimination(
    graph: CostGraph, rest: CostGraph, max_work: float, deadline: Deadline
) -> Answer | None:
    """The optimum by dynamic programming on `rest`: the graph, or what pruning left of it.

    Returns None if that needs too many sums, too large tables or too much time.
    """
    plan = plan_elimination(rest, MAX_ENTRIES, max_work)
    chosen = None if plan is None else eliminate(rest, plan, deadline)
    if chosen is None:
        return None
    full = rest.complete(chosen)
    cost = graph.cost(graph.to_places(full))
    return Answer(full, cost, cost, True, "dp")


def _by_heuristic(
    graph: CostGraph, tightened: CostGraph, bound: float, deadline: Deadline
) -> Answer | None:
    """PBQP and local improvement, proven optimal if the cost meets the bound.

    Returns None if no finite choice was found in time.
    """
    try:
        places = good_choice(graph, tightened, bound, deadline, KICKS)
    except SearchLimitError:
        return None
    if places is None:
        return FORBIDDEN
    cost = graph.cost(places)
    chosen = graph.to_labels(places)
    return Answer(chosen, cost, min(cost, bound), is_closed(cost, bound), "pbqp")


def _pruned(tightened: CostGraph, bound: float, cost: float) -> CostGraph | None:
    """The graph without the candidates that no choice as cheap as the known one takes.

    cost: that of the known choice. Returns None if no choice remains.
    """
    rest = tightened.copy()
    budget = cost + RELATIVE_TOLERANCE * abs(cost)
    keep = {node: affordable(tightened, node, bound, budget) for node in tightened.costs}
    for node, mask in keep.items():
        rest.restrict(node, mask)
    return rest if simplify(rest) else None


def _by_milp(
    graph: CostGraph, rest: CostGraph, best: Answer | None, bound: float, deadline: Deadline
) -> Answer | None:
    """The cheaper of the known choice, if any, and that of branch and cut on the rest.

    Returns None if neither exists.
    """
    result = branch_and_cut(rest, deadline)
    found = [] if best is None else [(best.cost, best.chosen)]
    if result.chosen is not None:
        full = rest.complete(result.chosen)
        found.append((graph.cost(graph.to_places(full)), full))
    if not found and not result.finished:
        return None
    cost, chosen = min(found, key=lambda pair: pair[0], default=(math.inf, {}))
    if result.finished:
        return Answer(chosen, cost, cost, True, "milp")
    bound = max(bound, min(cost, result.lower_bound))
    return Answer(chosen, cost, min(cost, bound), is_closed(cost, bound), "milp")


def _by_more_kicks(graph: CostGraph, best: Answer, deadline: Deadline) -> Answer:
    """The known choice after local improvement in the remaining time."""
    places = improve(
        graph, graph.to_places(best.chosen), best.lower_bound, deadline, LAST_KICKS, seed=1
    )
    cost = graph.cost(places)
    closed = is_closed(cost, best.lower_bound)
    return replace(best, chosen=graph.to_labels(places), cost=cost, exact=closed)
