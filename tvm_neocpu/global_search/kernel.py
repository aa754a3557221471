"""Solve a kernel: a connected graph that no exact reduction makes smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_neocpu.global_search.cost_graph import CostGraph
from tvm_neocpu.global_search.dp import MAX_TABLE, eliminate
from tvm_neocpu.global_search.elimination_order import plan_elimination
from tvm_neocpu.global_search.limits import Deadline
from tvm_neocpu.global_search.local_improvement import improve
from tvm_neocpu.global_search.lower_bound import affordable, tighten
from tvm_neocpu.global_search.milp import branch_and_cut, count_pairs
from tvm_neocpu.global_search.pbqp import decide
from tvm_neocpu.global_search.simplify import simplify
from tvm_neocpu.global_search.solution import is_closed

EASY=20_000_000
@dataclass(frozen=True)
class KernelAnswer:
    chosen: dict[int, int]
    lower_bound: float
    exact: bool
    engine: str
import time
DEBUG=True
def dbg(*a):
    if DEBUG: print(f"{time.monotonic()%1000:.2f}", *a)

def stats(g):
    return f"n={len(g.costs)} cand={sum(c.size for c in g.costs.values())} pairs={count_pairs(g)} e={len(g.edge_list())}"

def solve_kernel(kernel: CostGraph, deadline: Deadline) -> KernelAnswer | None:
    dbg("kernel", stats(kernel))
    plan = plan_elimination(kernel, MAX_TABLE, EASY)
    if plan is not None:
        chosen = eliminate(kernel, plan, deadline)
        if chosen is not None:
            cost = kernel.cost(kernel.to_places(chosen))
            return None if math.isinf(cost) else KernelAnswer(chosen, cost, True, "dp")
    g = kernel.copy()
    bound = tighten(g, deadline.share(0.3), 300)
    dbg("bound", bound)
    decided = decide(g.copy(), deadline)
    if decided is None: return None
    places = g.to_places(decided.complete({}))
    dbg("pbqp", g.cost(places))
    places = improve(g, places, deadline.share(.3), 20)
    cost = g.cost(places)
    dbg("improved", cost)
    chosen = g.to_labels(places)
    if is_closed(cost, bound): return KernelAnswer(chosen, bound, True, "bound")
    p = g.copy()
    budget = cost + 1e-9*abs(cost)
    for node in p.costs:
        p.restrict(node, affordable(p, node, bound, budget))
    ok = simplify(p)
    dbg("pruned", ok, stats(p))
    plan = plan_elimination(p, MAX_TABLE, 3_000_000_000)
    if plan is not None:
        dbg("dp", plan.largest_table, plan.work)
        c = eliminate(p, plan, deadline)
        if c is not None:
            c = p.complete(c)
            dbg("dp done", kernel.cost(kernel.to_places(c)))
            return KernelAnswer(c, kernel.cost(kernel.to_places(c)), True, "dp")
    r = branch_and_cut(p, deadline)
    dbg("milp", r.finished, r.lower_bound)
    if r.chosen is not None:
        c = p.complete(r.chosen)
        cc = kernel.cost(kernel.to_places(c))
        if cc < cost: chosen, cost = c, cc
    return KernelAnswer(chosen, cost if r.finished else max(bound, r.lower_bound), r.finished, "milp")
