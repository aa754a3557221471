"""Schedule every function of the module."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import tirx
from tvm.s_tir import SBlockRealize

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.relay_passes.lowering.waking_threads import ON_ONE_CORE
from tvm_neocpu.relay_passes.memory.at_offsets import AtOffsets
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.scheduled_before import ScheduledBefore
from tvm_neocpu.topi.tir.functions.memory_params import takes_memory_params
from tvm_neocpu.topi.tir.functions.serial_where_small import serial, serial_where_small


@dataclass(frozen=True)
class ScheduleFunctions:
    """Schedule each PrimFunc by its template or by the general rule.

    A function that cannot be scheduled (an opaque body) stays as TVM wrote it, a fused group as
    :class:`FuseBlocks` left it. ``before`` keeps what it schedules for the next module. ``ready``
    is told of each function at once, as ``PlanMemory(at_offset)`` is expected to rewrite it.

    Loops that are too small for a fork run serially, and so do all of a function that is marked to
    run on one core.

    Needs: groups are fused; the schedule of a template covers its epilogue.
    Leaves: PrimFuncs ready for code generation; Relax functions as they were.
    """

    name: ClassVar[str] = "schedule-functions"
    cpu: Cpu
    before: ScheduledBefore | None = None
    ready: Callable[[tirx.PrimFunc], None] | None = None
    at_offset: Collection[str] = ()

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        schedule = schedule_function if self.before is None else self.before.schedule
        # A guess: PlanMemory looks at scheduled functions, in another order of calls.
        guess = None if self.ready is None else AtOffsets.of(mod, self.at_offset)
        scheduled = mod.clone()
        functions = [
            (name, func) for name, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)
        ]
        for name, func in sorted(functions, key=lambda item: -_stages(item[1])):
            if layers_of(func) is None:
                if func.attrs and ON_ONE_CORE in func.attrs:
                    func = serial(schedule(func, self.cpu.with_cores(1)))
                else:
                    func = serial_where_small(schedule(func, self.cpu), self.cpu)
                scheduled.update_func(name, func)
            if self.ready is not None and guess is not None:
                self.ready(_with_memory(func, str(name.name_hint), guess))
        return scheduled


def _stages(func: tirx.PrimFunc) -> int:
    """How many results a function keeps on its way. Those of many take a compiler longest."""
    body = func.body
    return len(body.block.alloc_buffers) if isinstance(body, SBlockRealize) else 0


def _with_memory(func: tirx.PrimFunc, name: str, found: AtOffsets) -> tirx.PrimFunc:
    """As PlanMemory rewrites it; a function that no arena's network calls stays."""
    if name not in found.movable or not takes_memory_params(func):
        return func
    return found.placed(name, func).func
