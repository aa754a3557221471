"""A network read and folded once, then lowered under any plan: what tuning and plan reports time.

open_onnx(content, shapes, "llvm").lower(plan, views=False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import onnx
import tvm
from numpy.typing import NDArray
from tvm import tirx
from tvm.s_tir import ScheduleError
from tvm.target import Target

from tvm_neocpu.choose_plan import runs_on_one_core
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.layer_group import GroupBands, Members
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.sample_inputs import sample_inputs
from tvm_neocpu.pipeline import APART, apply_plan, compute_templates, fold, schedule_module
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.lowering.lowered_before import LoweredBefore
from tvm_neocpu.relay_passes.lowering.rounded_maps import as_planned
from tvm_neocpu.relay_passes.lowering.waking_threads import on_one_core
from tvm_neocpu.relay_passes.operators.call_form import CallForm
from tvm_neocpu.relay_passes.operators.table import add_form, added_forms, forms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.planning.find_sweeps import SweepFinder
from tvm_neocpu.relay_passes.planning.view_transforms import ViewTransforms
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.fused_block.template import key_of, members_key
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.schedule_function import anchor_of
from tvm_neocpu.topi.scheduled_before import ScheduledBefore
from tvm_neocpu.topi.sweep.geometry import SweepConfig
from tvm_neocpu.tuning.in_network.processes.machine import Lowered, Scheme


@dataclass(frozen=True)
class FoldedNetwork:
    """``module`` is folded, its weights are constants; ``inputs`` are data for it, in order.

    ``on_one_core``: a build compiles it so, though it may use several; ``cpu`` has one core then.
    Functions that two plans have in common are scheduled once, those of stand-ins computed once.
    """

    module: tvm.IRModule
    graph: ConvGraph
    cpu: Cpu
    target: Target
    inputs: Sequence[NDArray[Any]]
    on_one_core: bool = False
    before: ScheduledBefore = field(default_factory=ScheduledBefore, compare=False, repr=False)
    views: LoweredBefore = field(default_factory=LoweredBefore, compare=False, repr=False)

    def lower(self, plan: Plan, views: bool = False) -> Lowered:
        """The network under ``plan``; with ``views``, for timing, layout transforms are views.

        Then no layers are fused into groups either: each is timed by itself.

        Raises PlanError for the plan of another network.
        """
        altered = apply_plan(self.module, plan, self.cpu)
        if views:
            altered = run_passes(altered, ViewTransforms())
        configs = plan.by_layout(self.graph)
        groups = APART if views or self.on_one_core else plan.group_bands(self.graph)
        computed = compute_templates(altered, configs, self.cpu, self.views if views else None)
        if self.on_one_core:
            computed = on_one_core(computed)
        sweeps = SweepFinder(self.graph)
        schemes = {
            name: scheme
            for var, func in computed.functions.items()
            if isinstance(func, tirx.PrimFunc)
            and (scheme := _scheme_of(name := str(var.name_hint), func, sweeps)) is not None
        }
        scheduled = schedule_module(computed, self.cpu, groups, self.before)
        return Lowered(scheduled, schemes, _groups_of(scheduled, groups))


def open_onnx(content: bytes, shapes: Mapping[str, tuple[int, ...]], target: str) -> FoldedNetwork:
    """The network of an ONNX file's content at static input shapes; ``target`` as users write it.

    Raises what :func:`from_onnx` and :func:`parse_target` raise.
    """
    model = onnx.load_from_string(content)
    chosen = parse_target(target)
    mod, _ = from_onnx(model, shapes)
    arrays = sample_inputs(model, shapes)
    inputs = [arrays[str(parameter.name)] for parameter in mod["main"].params]
    folded = fold(mod, chosen.cpu)
    graph = ExtractConvGraph(chosen.cpu)(folded)
    alone = runs_on_one_core(folded, graph, chosen.cpu)
    cpu = chosen.cpu.with_cores(1) if alone else chosen.cpu
    return FoldedNetwork(folded, graph, cpu, chosen.target, inputs, alone)


def opener(
    content: bytes, shapes: Mapping[str, tuple[int, ...]], target: str
) -> Callable[[], FoldedNetwork]:
    """:func:`open_onnx` for another process, which learns first how registered operators look."""
    return partial(_open_with, added_forms(), content, shapes, target)


def _open_with(
    others: tuple[CallForm, ...],
    content: bytes,
    shapes: Mapping[str, tuple[int, ...]],
    target: str,
) -> FoldedNetwork:
    known = {form.operator for form in forms()}
    for form in others:
        if form.operator not in known:
            add_form(form)
    return open_onnx(content, shapes, target)


def _groups_of(scheduled: tvm.IRModule, groups: GroupBands) -> dict[str, Members]:
    """What the functions of groups compute, by their names."""
    by_key = {key_of(members): members for members in groups}
    found = {str(var.name_hint): members_key(func) for var, func in scheduled.functions.items()}
    return {name: by_key[key] for name, key in found.items() if key is not None}


def _scheme_of(name: str, func: tirx.PrimFunc, sweeps: SweepFinder) -> Scheme | None:
    try:
        anchor = anchor_of(UncheckedSchedule(func))
    except ScheduleError:  # loops written by hand have no root block
        return None
    if anchor is not None:
        return as_planned(anchor.workload), anchor.config
    sweep = sweeps.find(name, func)
    return None if sweep is None else (sweep, SweepConfig())
