"""Running our passes one after the other, with one variable to look between them.

``TVM_NEOCPU_DEBUG=print`` prints the module after every pass, ``TVM_NEOCPU_DEBUG=verify`` checks
that it is still well formed; both may be given, separated by a comma.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

import tvm
from tvm import relax

DEBUG = "TVM_NEOCPU_DEBUG"


class Pass(Protocol):
    """A graph pass: a frozen value with a name that maps a module to a module."""

    @property
    def name(self) -> str: ...

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule: ...


def run_passes(mod: tvm.IRModule, *passes: Pass) -> tvm.IRModule:
    """Apply passes in order; raises ValueError naming the pass that left a broken module."""
    wanted = set(os.environ.get(DEBUG, "").split(","))
    for step in passes:
        mod = step(mod)
        if "print" in wanted:
            print(f"# after {step.name}\n{mod.script()}", file=sys.stderr)
        if "verify" in wanted and not relax.analysis.check_well_formed(mod):
            raise ValueError(f"{step.name} left a module that is not well formed")
    return mod
