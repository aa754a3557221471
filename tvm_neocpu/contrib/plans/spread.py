"""Which plans are compared: the global search's, the greedy plan, one layout, random plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_neocpu.choose_plan import known_costs
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.global_search import solve
from tvm_neocpu.global_search.network.baselines import (
    fastest_schemes,
    random_schemes,
    schemes_of_one_layout,
    solve_marked,
)
from tvm_neocpu.global_search.network.choose import plan_of
from tvm_neocpu.global_search.network.layout_graph import LayoutGraph, build_layout_graph
from tvm_neocpu.global_search.problem.solution import Solution
from tvm_neocpu.tuning.database.history import History

GLOBAL, GREEDY = "global", "greedy"


@dataclass(frozen=True)
class PricedPlan:
    """A plan with the parts of the search's sum, in seconds: convolutions, sweeps, transforms.

    It has several ``names`` if several ways to choose gave the same plan. ``timed_seconds`` is the
    part of ``conv_seconds`` that comes from records; the cost model predicted the rest.
    """

    names: tuple[str, ...]
    plan: Plan
    conv_seconds: float
    timed_seconds: float
    sweep_seconds: float = 0.0

    @property
    def name(self) -> str:
        return " = ".join(self.names)

    @property
    def seconds(self) -> float:
        """The search's sum."""
        return self.plan.seconds

    @property
    def transform_seconds(self) -> float:
        return max(0.0, self.plan.seconds - self.conv_seconds - self.sweep_seconds)


def plans_of(
    graph: ConvGraph, cpu: Cpu, history: History, randoms: int, seed: int
) -> list[PricedPlan]:
    """Distinct plans over the same candidates and transform costs, the global search's first.

    Random plan k of n changes a share k / n of the global plan, so that predicted costs spread.
    """
    layout_graph = build_layout_graph(graph, *known_costs(graph, cpu, history))
    optimum = solve(layout_graph.problem)
    one = Layout(max(cpu.lanes(workload.types.accumulator) for workload in graph.workloads))
    marked = {
        GREEDY: fastest_schemes(layout_graph),
        f"all {one}": schemes_of_one_layout(layout_graph, one),
    }
    for k in range(1, randoms + 1):
        share = k / randoms
        marked[f"random {share:.0%}"] = random_schemes(layout_graph, optimum, share, seed + k)
    solutions = {GLOBAL: optimum}
    for name, mask in marked.items():
        solutions[name] = solve_marked(layout_graph, mask, optimum, name)
    timed = {
        (record.workload, record.config)
        for records in history.schemes(graph.workloads).values()
        for record in records
    }
    priced = [_priced(name, layout_graph, s, timed) for name, s in solutions.items()]
    return _distinct(priced)


def _priced(
    name: str, layout_graph: LayoutGraph, solution: Solution, timed: set[tuple[Workload, Config]]
) -> PricedPlan:
    nodes = layout_graph.graph.nodes
    picked = list(zip(nodes, layout_graph.picked(solution.choice), strict=True))
    return PricedPlan(
        names=(name,),
        plan=plan_of(layout_graph, solution),
        conv_seconds=sum(option.seconds for _, option in picked),
        timed_seconds=sum(o.seconds for node, o in picked if (node.workload, o.config) in timed),
        sweep_seconds=sum(option.sweeps for _, option in picked),
    )


def _distinct(priced: list[PricedPlan]) -> list[PricedPlan]:
    """Each plan once, with the names of all plans equal to it."""
    found: list[PricedPlan] = []
    for one in priced:
        same = [k for k, other in enumerate(found) if _same(one.plan, other.plan)]
        if not same:
            found.append(one)
            continue
        known = found[same[0]]
        found[same[0]] = replace(known, names=(*known.names, *one.names))
    return found


def _same(one: Plan, other: Plan) -> bool:
    return (one.configs, one.joins) == (other.configs, other.joins)
