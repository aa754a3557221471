"""A network built under a given plan, and which of its functions the search has priced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.pipeline import apply_plan, compute_templates, fold, schedule_module
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.topi.anchor import find_anchor

Scheme = tuple[Workload, Config]


@dataclass(frozen=True)
class BuiltPlan:
    """``schemes`` says of a function's name what its template computes; the others have none."""

    executable: relax.VMExecutable
    schemes: Mapping[str, Scheme]


def build_plan(mod: tvm.IRModule, plan: Plan, target: CompileTarget) -> BuiltPlan:
    """Build ``mod``, its weights constants, as the plan says; PlanError if it is another's."""
    folded = fold(mod, target.cpu)
    graph = ExtractConvGraph(target.cpu)(folded)
    altered = apply_plan(folded, plan, target.cpu)
    computed = compute_templates(altered, plan.by_layout(graph), target.cpu)
    schemes = {
        str(var.name_hint): scheme
        for var, func in computed.functions.items()
        if isinstance(func, tirx.PrimFunc) and (scheme := _scheme_of(func)) is not None
    }
    return BuiltPlan(tvm.compile(schedule_module(computed), target.target), schemes)


def _scheme_of(func: tirx.PrimFunc) -> Scheme | None:
    anchor = find_anchor(Schedule(func))
    return None if anchor is None else (anchor.workload, anchor.config)
