"""Schedule every function of the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import tirx

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.schedule_function import schedule_function


@dataclass(frozen=True)
class ScheduleFunctions:
    """Functions that cannot be scheduled (symbolic shapes, opaque bodies) run as TVM wrote them."""

    name: ClassVar[str] = "schedule-functions"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        scheduled = mod.clone()
        for name, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc):
                scheduled.update_func(name, schedule_function(func, self.cpu))
        return scheduled
