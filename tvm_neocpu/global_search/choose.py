"""The global search's door: conv graph, candidates and transform costs in, plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_neocpu.core.candidate import Candidate
from tvm_neocpu.core.conv_graph import ConvGraph, NodeKind
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.global_search.layout_graph import (
    LayoutGraph,
    TransformSeconds,
    build_layout_graph,
)
from tvm_neocpu.global_search.solution import Solution
from tvm_neocpu.global_search.solve import solve


def choose_layouts(
    graph: ConvGraph,
    candidates: Mapping[Workload, Sequence[Candidate]],
    transform_seconds: TransformSeconds,
    method: str = "auto",
    time_limit: float | None = None,
) -> Plan:
    """The cheapest assignment of configs to convolutions and layouts to joins.

    ``candidates`` holds at least one scheme for every workload of the graph; times are seconds.
    Raises what :func:`solve` raises.
    """
    layout_graph = build_layout_graph(graph, candidates, transform_seconds)
    solution = solve(layout_graph.problem, method, time_limit)
    return plan_of(layout_graph, solution)


def plan_of(layout_graph: LayoutGraph, solution: Solution) -> Plan:
    """What a solution of the numeric problem means for the network."""
    graph = layout_graph.graph
    picked = {
        node.id: options[choice]
        for node, options, choice in zip(
            graph.nodes, layout_graph.options, solution.choice[: len(graph.nodes)], strict=True
        )
    }
    return Plan(
        graph=graph.hash,
        configs={id: option.config for id, option in picked.items() if option.config is not None},
        joins={n.id: picked[n.id].writes for n in graph.nodes if n.kind is NodeKind.JOIN},
        seconds=solution.cost,
        lower_bound=solution.lower_bound,
        method=solution.method,
    )
