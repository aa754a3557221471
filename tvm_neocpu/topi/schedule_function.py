"""Schedule one fused function: by the template that its anchor names, else by the general rule."""

from __future__ import annotations

import logging

from tvm import tirx
from tvm.s_tir import Schedule, ScheduleError

from tvm_neocpu.topi.anchor import find_anchor, forget_anchor
from tvm_neocpu.topi.schedule.generic import (
    downstream,
    inline_elementwise,
    schedule_block,
    schedule_generic,
)
from tvm_neocpu.topi.schedule.prologue import melt_prologue
from tvm_neocpu.topi.strategy import implementation_of
from tvm_neocpu.topi.tir.forget_locals import forget_locals
from tvm_neocpu.topi.tir.outline_chunks import outline_chunks
from tvm_neocpu.topi.tir.prefetch_epilogue import prefetch_epilogues
from tvm_neocpu.topi.tir.prefetch_pixels import plant_pixel_requests
from tvm_neocpu.topi.tir.prefetch_weights import plant_prefetches

_LOG = logging.getLogger("tvm_neocpu")


def schedule_function(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function scheduled and ready for code generation, its attributes kept."""
    return forget_locals(schedule_blocks(func))


def schedule_blocks(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function scheduled, of blocks that a ``Schedule`` still reads.

    One that cannot be scheduled (symbolic shapes, opaque bodies) is returned as TVM wrote it.
    """
    try:
        scheduled = _scheduled(Schedule(func))
    except ScheduleError as error:
        _LOG.debug("left unscheduled: %s", error)
        return func
    return scheduled.with_attrs(dict(func.attrs)) if func.attrs else scheduled


def _scheduled(sch: Schedule) -> tirx.PrimFunc:
    anchor = find_anchor(sch)
    if anchor is None:
        schedule_generic(sch)
        return outline_chunks(sch.mod["main"])
    melt_prologue(sch)
    output = implementation_of(anchor.config).schedule(sch, anchor)
    rest = downstream(sch, output)
    inline_elementwise(sch, rest)
    for block in rest[-1:]:
        schedule_block(sch, block)
    forget_anchor(sch)
    requested = plant_pixel_requests(prefetch_epilogues(sch.mod["main"]))
    return outline_chunks(plant_prefetches(requested), serial_too=True)
