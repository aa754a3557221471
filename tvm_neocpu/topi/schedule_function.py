"""Schedule one fused function: by the template that its anchor names, else by the general rule."""

from __future__ import annotations

import logging
from dataclasses import replace

from tvm import tirx
from tvm.s_tir import Schedule, ScheduleError

from tvm_neocpu.core.errors import TemplateError, first_line
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.anchor import Anchor, find_anchor, forget_anchor
from tvm_neocpu.topi.math.vector_calls import vectorize_forgotten_calls
from tvm_neocpu.topi.schedule.generic import schedule_behind, schedule_generic
from tvm_neocpu.topi.schedule.prologue import inline_prologue
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.table import implementation_of, types_of
from tvm_neocpu.topi.tir.order import GENERIC_REWRITES, TEMPLATE_REWRITES, Rewrite
from tvm_neocpu.topi.tir.tiles.forget_locals import forget_locals

_LOG = logging.getLogger("tvm_neocpu")


def anchor_of(sch: Schedule) -> Anchor | None:
    """The anchor of a function that is not scheduled yet; ``None`` where no template made any."""
    return find_anchor(sch, types_of)


def schedule_function(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function scheduled and ready for code generation, its attributes kept.

    A function without an anchor that cannot be scheduled (an opaque body) stays as TVM wrote it.
    Raises TemplateError where a template's own schedule fails.
    """
    scheduled = _scheduled(func, cpu)
    if scheduled is None:
        return func
    rewritten, rewrites = scheduled
    for rewrite in rewrites:
        rewritten = rewrite(rewritten, cpu)
    return rewritten


def schedule_blocks(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function scheduled, of blocks that a ``Schedule`` still reads; for tests."""
    scheduled = _scheduled(func, cpu)
    if scheduled is None:
        return func
    rewritten, rewrites = scheduled
    for rewrite in rewrites[: rewrites.index(forget_locals)]:
        rewritten = rewrite(rewritten, cpu)
    return rewritten


def schedule_as(func: tirx.PrimFunc, config: Config, cpu: Cpu) -> tirx.PrimFunc:
    """The function scheduled by its template under another config of the same register tiles.

    Its loops are not rewritten yet. Raises TemplateError where the template's schedule fails.
    """
    sch = UncheckedSchedule(func)
    anchor = anchor_of(sch)
    assert anchor is not None, "only a template's function has a config"
    return _by_template(sch, replace(anchor, config=config), cpu)


def schedule_loops(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc | None:
    """The function scheduled by the general rule, its loops not rewritten yet.

    ``None`` where a template computes it, or nothing can schedule it.
    """
    try:
        sch = Schedule(func)
        if anchor_of(sch) is not None:
            return None
        schedule_generic(sch, cpu)
    except ScheduleError:
        return None
    return sch.mod["main"]


def _scheduled(func: tirx.PrimFunc, cpu: Cpu) -> tuple[tirx.PrimFunc, tuple[Rewrite, ...]] | None:
    """The function with its loops scheduled, and the rewrites that follow."""
    vectorize_forgotten_calls()
    try:
        sch = UncheckedSchedule(func)
        anchor = anchor_of(sch)
    except ScheduleError as error:
        _LOG.debug("left unscheduled: %s", error)
        return None
    if anchor is not None:
        return _with_attrs(_by_template(sch, anchor, cpu), func), TEMPLATE_REWRITES
    try:
        schedule_generic(sch, cpu)
    except ScheduleError as error:
        # Of 260 layers and ONNX's node suite none comes here.
        _LOG.warning("an operation is left unscheduled, and may be slow: %s", _reason(error))
        return None
    return _with_attrs(sch.mod["main"], func), GENERIC_REWRITES


def _reason(error: ScheduleError) -> str:
    """The first line of TVM's own words, which stand behind the whole function."""
    _, _, reason = str(error).rpartition("Error message: ")
    return first_line(RuntimeError(reason))


def _with_attrs(scheduled: tirx.PrimFunc, func: tirx.PrimFunc) -> tirx.PrimFunc:
    return scheduled.with_attrs(dict(func.attrs)) if func.attrs else scheduled


def _by_template(sch: Schedule, anchor: Anchor, cpu: Cpu) -> tirx.PrimFunc:
    try:
        inline_prologue(sch)
        output = implementation_of(anchor.config).schedule(sch, anchor, cpu)
        schedule_behind(sch, output, cpu)
    except ScheduleError as error:
        raise TemplateError(
            f"template {anchor.template} cannot schedule {anchor.workload} as {anchor.config}: "
            f"{first_line(error)}; this is a bug of the template"
        ) from error
    forget_anchor(sch)
    return sch.mod["main"]
