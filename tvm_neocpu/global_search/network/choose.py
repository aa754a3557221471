"""From a conv graph, candidates and transform times to a plan, and from a plan to its solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.layer_group import GroupNode
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.global_search.network.group_nodes import chosen_groups, planned_choice
from tvm_neocpu.global_search.network.layout_graph import (
    LayoutGraph,
    Option,
    SweepSeconds,
    TransformSeconds,
    build_layout_graph,
    nothing,
)
from tvm_neocpu.global_search.problem.limits import Deadline
from tvm_neocpu.global_search.problem.solution import Solution, is_closed
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.global_search.solvers.restricted import solve_among

# Seconds for the transforms that a plan leaves open.
TIME_LIMIT = 10.0


def choose_layouts(
    graph: ConvGraph,
    candidates: Mapping[Workload, Sequence[Candidate]],
    transform_seconds: TransformSeconds,
    sweep_seconds: SweepSeconds = nothing,
    method: str = "auto",
    time_limit: float | None = None,
    groups: Sequence[GroupNode] = (),
) -> Plan:
    """The fastest plan: a config for every convolution and a layout for every join.

    This is NeoCPU's global search (section 3.3.2). All times are seconds.

    candidates: at least one scheme for every workload of the graph.
    transform_seconds, sweep_seconds: see :func:`build_layout_graph`.
    method, time_limit: see :func:`solve`.
    groups: layers that may be computed by one function.

    Raises what :func:`build_layout_graph` and :func:`solve` raise.
    """
    layout_graph = build_layout_graph(
        graph, candidates, transform_seconds, sweep_seconds, groups=groups
    )
    solution = solve(layout_graph.problem, method, time_limit)
    return plan_of(layout_graph, solution)


def plan_of(layout_graph: LayoutGraph, solution: Solution) -> Plan:
    """The plan that a solution of the layout problem means; its times are seconds."""
    graph = layout_graph.graph
    ids = [node.id for node in graph.nodes]
    picked = dict(zip(ids, layout_graph.picked(solution.choice), strict=True))
    return Plan(
        graph=graph.hash,
        configs={id: option.config for id, option in picked.items() if option.config is not None},
        joins={n.id: picked[n.id].writes for n in graph.nodes if n.kind is NodeKind.JOIN},
        seconds=solution.cost,
        lower_bound=solution.lower_bound,
        method=solution.method,
        groups=chosen_groups(layout_graph.groups, solution.choice[layout_graph.first_group :]),
    )


def solution_of(
    layout_graph: LayoutGraph, plan: Plan, optimum: Solution, time_limit: float = TIME_LIMIT
) -> Solution | None:
    """The inverse of :func:`plan_of`: the best solution that follows a plan.

    A plan decides all nodes of the graph; what is left are the transforms that tensors share. Its
    lower bound is that of ``optimum``, the solution without a plan. Returns None for a plan of
    another graph, or with a config or layout that is not among the candidates. Raises
    SearchLimitError if no solution was found in ``time_limit`` seconds.
    """
    keep = {
        i: np.array([_follows(option, node, plan) for option in layout_graph.options[i]])
        for i, node in enumerate(layout_graph.graph.nodes)
    }
    planned = {group.members: group.bands for group in plan.groups or ()}
    for number, group in enumerate(layout_graph.groups, layout_graph.first_group):
        if plan.groups is not None:
            keep[number] = np.array(planned_choice(group, planned))
    if plan.graph != layout_graph.graph.hash or not all(mask.any() for mask in keep.values()):
        return None
    found = solve_among(layout_graph.problem, keep, Deadline.after(time_limit))
    if found is None:
        return None
    bound = min(found.cost, optimum.lower_bound)
    optimal = is_closed(found.cost, bound)
    return replace(found, lower_bound=bound, optimal=optimal, method=plan.method)


def _follows(option: Option, node: GraphNode, plan: Plan) -> bool:
    if node.kind is NodeKind.JOIN:
        return option.writes == plan.joins.get(node.id)
    return option.config == plan.configs.get(node.id)
