"""A network with the choices that a build would make, priced, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_neocpu.choose_plan import Schemes, known_costs
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import Coverage
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.global_search.network.choose import solution_of
from tvm_neocpu.global_search.network.explain import Explanation, explain
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.global_search.problem.limits import SearchLimitError
from tvm_neocpu.global_search.solvers.methods import solve
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.tuning.candidates import usable_plan
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.group_candidates import groups_of


@dataclass(frozen=True)
class ExplainedNetwork:
    """``origin`` says where the choices come from: a log's plan, or a search over what is known.

    ``coverage`` says which arithmetic the plan has no time for, and which one function of ours
    computes beside it. ``names`` are ONNX nodes by the ids
    of the graph's, where they are known. ``notes`` say what the plan's time leaves out.
    """

    name: str
    cpu: str
    threads: int
    origin: str
    explanation: Explanation
    coverage: Coverage
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_planned(self) -> bool:
        """Whether any operation has a time, so that the sum says something."""
        return bool(self.explanation.graph.convs or self.coverage.fixed)

    @property
    def seconds(self) -> float:
        """The predicted time of the plan and of what one function of ours computes beside it."""
        return self.explanation.seconds + self.coverage.fixed_seconds


def explain_network(
    name: str, graph: ConvGraph, cpu: Cpu, history: History, coverage: Coverage
) -> ExplainedNetwork:
    """The choices that a build would make now from what ``history`` knows; nothing is built."""
    candidates, *prices = known_costs(graph, cpu, history)
    logged = usable_plan(history.plan(graph), graph, cpu)
    if logged is not None:
        candidates = _with_schemes_of(logged, graph, candidates, history, cpu)
    groups = groups_of(graph, candidates, cpu, logged)
    layout_graph = build_layout_graph(graph, candidates, *prices, groups=groups)
    solution = solve(layout_graph.problem)
    origin = f"a search over what is known ({solution.method}){_other_plans(graph, history)}"
    if logged is not None:
        try:
            planned = solution_of(layout_graph, logged, solution)
        except SearchLimitError:
            planned, why = None, "over what is known, since the log's plan was not priced in time"
        else:
            why = "over what is known, which the log's plan does not fit"
        origin = f"the log's plan ({logged.method})"
        if planned is None:
            origin = f"a search {why} ({solution.method})"
        solution = planned or solution
    records = (r for workload in graph.workloads for r in history.best_records.all_of(workload))
    measured = {(record.workload, record.config) for record in records if record.ok}
    explanation = explain(layout_graph, solution, measured)
    return ExplainedNetwork(name, cpu.name, cpu.cores, origin, explanation, coverage)


def _with_schemes_of(
    plan: Plan, graph: ConvGraph, candidates: Schemes, history: History, cpu: Cpu
) -> Schemes:
    """The candidates, and those schemes of a plan that faster records have put out of them.

    A build takes the log's plan with them. `tune` proves whole plans: one may have a scheme that is
    not the fastest by itself.
    """
    found = dict(candidates)
    for node in graph.convs:
        workload, config = node.workload, plan.configs.get(node.id)
        if workload is None or config is None:
            continue
        if all(known.config != config for known in found[workload]):
            records = history.best_records.all_of(workload)
            timed = [each.seconds for each in records if each.ok and each.config == config]
            seconds = min(timed, default=None) or predict_seconds(workload, config, cpu)
            found[workload] = (*found[workload], Candidate(config, seconds))
    return found


def _other_plans(graph: ConvGraph, history: History) -> str:
    """Says that the network was tuned, but not for this thread count."""
    others = [str(count) for count in history.planned_threads(graph) if count != history.threads]
    counts = " and ".join(others)
    return f"; the logs have plans of it at thread count {counts} only" if others else ""
