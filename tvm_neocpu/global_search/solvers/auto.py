"""The default method: exact if the limits allow it, always with a valid lower bound.

problem -> exact reductions -> connected components, which no reduction makes smaller
        -> each one solved by itself (irreducible.py) -> the choices and bounds put together
"""

from __future__ import annotations

import math

from tvm_neocpu.global_search.problem.cost_graph import CostGraph, components
from tvm_neocpu.global_search.problem.layout_problem import LayoutProblem
from tvm_neocpu.global_search.problem.limits import Deadline, SearchLimitError
from tvm_neocpu.global_search.problem.solution import Solution, bounded, proven
from tvm_neocpu.global_search.simplify.fixpoint import simplify
from tvm_neocpu.global_search.solvers.irreducible import solve_irreducible
from tvm_neocpu.global_search.solvers.pbqp import solve_pbqp


def solve_auto(problem: LayoutProblem, deadline: Deadline) -> Solution | None:
    """Reduce exactly, then solve each remaining component within its share of the time.

    Returns None if every choice is forbidden. The solution's `method` lists the engines that were
    needed. Raises SearchLimitError only if no finite choice is found by the deadline.
    """
    graph = CostGraph.of(problem)
    if not simplify(graph):
        return None
    parts = [graph.part(nodes) for nodes in components(graph)]
    chosen: dict[int, int] = {}
    bound, exact, engines = graph.constant, True, ["reductions"]
    for k, part in enumerate(parts):
        answer = solve_irreducible(part, deadline.share(1 / (len(parts) - k)))
        if math.isinf(answer.cost):
            return None
        chosen |= answer.chosen
        bound += answer.lower_bound
        exact = exact and answer.exact
        engines.append(answer.engine)
    method = f"auto ({', '.join(dict.fromkeys(engines))})"
    full = graph.complete(chosen)
    if exact:
        return proven(problem, full, method)
    return _not_worse_than_pbqp(problem, bounded(problem, full, bound, method), deadline)


def _not_worse_than_pbqp(problem: LayoutProblem, found: Solution, deadline: Deadline) -> Solution:
    """The cheaper of a choice and what PBQP finds on the whole problem.

    There RN takes other decisions than on the components, and sometimes better ones.
    """
    try:
        rival = solve_pbqp(problem, deadline)
    except SearchLimitError:
        return found
    if rival is None or rival.cost >= found.cost:
        return found
    chosen = dict(enumerate(rival.choice))
    bound = max(found.lower_bound, rival.lower_bound)
    return bounded(problem, chosen, bound, f"{found.method}, then pbqp")
