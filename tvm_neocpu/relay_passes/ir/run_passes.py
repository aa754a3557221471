"""Run passes in order; one environment variable shows the module between them.

``TVM_NEOCPU_DEBUG=print`` prints the module after every pass. ``TVM_NEOCPU_DEBUG=verify`` checks
that it is well formed. ``print,verify`` does both.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

import tvm
from tvm import relax

DEBUG = "TVM_NEOCPU_DEBUG"


class Pass(Protocol):
    """A graph pass: a frozen value that maps a module to a module, and its name."""

    @property
    def name(self) -> str: ...

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule: ...


def run_passes(mod: tvm.IRModule, *passes: Pass) -> tvm.IRModule:
    """Apply passes in order.

    With ``verify``, raises ValueError, which names the pass, for a module that is not well formed.
    """
    wanted = set(os.environ.get(DEBUG, "").split(","))
    for apply in passes:
        mod = apply(mod)
        if "print" in wanted:
            print(f"# after {apply.name}\n{mod.script()}", file=sys.stderr)
        if "verify" in wanted and not relax.analysis.check_well_formed(mod):
            raise ValueError(f"{apply.name} left a module that is not well formed")
    return mod
