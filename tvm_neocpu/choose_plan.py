"""Which plan a network gets: a log's, or the global search's over measured and predicted times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tvm

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import Coverage
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.global_search.network.choose import choose_layouts
from tvm_neocpu.relay_passes.lowering.waking_threads import gains_less_than_waking, may_be_small
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.tuning.candidates import candidates_of, usable_plan
from tvm_neocpu.tuning.database.history import History, current_history
from tvm_neocpu.tuning.group_candidates import groups_of, with_groups
from tvm_neocpu.tuning.shared_weights import sharing_schemes
from tvm_neocpu.tuning.sweep_costs import SweepCosts
from tvm_neocpu.tuning.transform_costs import TransformCosts

Schemes = Mapping[Workload, Sequence[Candidate]]
# Against direct fp32 layers: Winograd leaves a fifth of the products, bytes go four at a time.
MOST_SAVED = 20


def choose_plan(graph: ConvGraph, cpu: Cpu, history: History | None = None) -> Plan:
    """The history's plan if it is for this graph, else a search over its records and the model."""
    history = history or current_history(cpu)
    logged = usable_plan(history.plan(graph), graph, cpu)
    return search_plan(graph, cpu, history) if logged is None else with_groups(logged, graph, cpu)


class Choice(NamedTuple):
    """The plan for all cores, and the one for one core where a build takes that; ``history`` is
    that of the plan taken.
    """

    plan: Plan
    alone: Plan | None
    history: History


def choose_plans(
    folded: tvm.IRModule, graph: ConvGraph, coverage: Coverage, cpu: Cpu, history: History
) -> Choice:
    """:func:`choose_plan`, and :func:`one_core_plan`.

    Warnings are those of the plan taken: a log that serves the other one is no useless log.
    """
    of_one = current_history(cpu.with_cores(1))
    with history.warn.waiting() as tell, of_one.warn.waiting() as tell_of_one:
        plan = choose_plan(graph, cpu, history)
        alone = one_core_plan(folded, graph, plan.seconds, coverage, cpu, history, of_one)
    (tell if alone is None else tell_of_one)()
    return Choice(plan, alone, history if alone is None else of_one)


def one_core_plan(
    folded: tvm.IRModule,
    graph: ConvGraph,
    together: float,
    coverage: Coverage,
    cpu: Cpu,
    history: History,
    of_one: History,
) -> Plan | None:
    """The plan for one core, where all cores save less of the network than waking them takes.

    ``together``: the predicted seconds on all cores; ``of_one``: the history of one. ``None`` where
    all save more, where a log has a plan for them, and where predictions do not cover all.
    """
    known = history.plan(graph) is None and not (coverage.fallbacks or coverage.fixed)
    if not known or not may_be_small(together, cpu):
        return None
    one = cpu.with_cores(1)
    alone = choose_plan(graph, one, of_one)
    return alone if gains_less_than_waking(folded, together, alone.seconds, cpu) else None


def runs_on_one_core(folded: tvm.IRModule, graph: ConvGraph, cpu: Cpu) -> bool:
    """Whether a build compiles the folded network for one core, by the logs in force."""
    operations = sum(workload.flops for workload in graph.workloads)
    at_peak = operations / MOST_SAVED / (cpu.peak_gflops("float32") * 1e9 * cpu.cores)
    if not may_be_small(at_peak, cpu):
        return False
    coverage = FindFallbacks(cpu)(folded)
    return choose_plans(folded, graph, coverage, cpu, current_history(cpu)).alone is not None


def search_plan(
    graph: ConvGraph, cpu: Cpu, history: History, time_limit: float | None = None
) -> Plan:
    """The global search over what is known, in at most ``time_limit`` seconds (None: no limit)."""
    schemes, *prices = known_costs(graph, cpu, history)
    groups = groups_of(graph, schemes, cpu)
    return choose_layouts(graph, schemes, *prices, time_limit=time_limit, groups=groups)


def sharing_plan(
    graph: ConvGraph, models: Sequence[tuple[ConvGraph, Plan]], cpu: Cpu, history: History
) -> Plan | None:
    """The fastest plan with the packed weights of one of the models; ``None`` if none has any.

    ``models``: the conv graph and the plan of each.
    """
    if not models:
        return None
    candidates, *prices = known_costs(graph, cpu, history)
    plans = []
    for model in models:
        schemes = sharing_schemes(graph, model, candidates, cpu)
        if schemes is not None:
            groups = groups_of(graph, schemes, cpu)
            plans.append(choose_layouts(graph, schemes, *prices, groups=groups))
    return min(plans, key=lambda plan: plan.seconds, default=None)


def known_costs(
    graph: ConvGraph, cpu: Cpu, history: History
) -> tuple[Schemes, TransformCosts, SweepCosts]:
    """Schemes, transforms, sweeps with their times: measured, the cost model's where none was."""
    prices = TransformCosts.from_records(cpu, history.transforms(graph))
    sweeps = SweepCosts.from_records(cpu, history.sweeps(graph))
    tried = history.tried(graph.workloads)
    return candidates_of(graph, cpu, tried, prices, sweeps), prices, sweeps
