"""Schedule every function of the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import tirx

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.scheduled_before import ScheduledBefore


@dataclass(frozen=True)
class ScheduleFunctions:
    """Schedule each PrimFunc by its template or by the general rule.

    A function that cannot be scheduled (an opaque body) stays as TVM wrote it, a fused group as
    :class:`FuseBlocks` left it. ``before`` keeps what it schedules for the next module.

    Needs: groups are fused; the schedule of a template covers its epilogue.
    Leaves: PrimFuncs ready for code generation; Relax functions as they were.
    """

    name: ClassVar[str] = "schedule-functions"
    cpu: Cpu
    before: ScheduledBefore | None = None

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        schedule = schedule_function if self.before is None else self.before.schedule
        scheduled = mod.clone()
        for name, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and layers_of(func) is None:
                scheduled.update_func(name, schedule(func, self.cpu))
        return scheduled
