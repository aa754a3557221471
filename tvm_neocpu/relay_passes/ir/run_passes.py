"""Running our passes in order, and the environment variable that shows what each of them left.

``TVM_NEOCPU_DEBUG=print`` prints the module after every pass, ``TVM_NEOCPU_DEBUG=verify`` checks
that it is still well formed, ``TVM_NEOCPU_DEBUG=print,verify`` does both.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

import tvm
from tvm import relax

from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.relay_passes.ir.python_lock import PYTHON_LOCK
from tvm_neocpu.runtime.process.fork_gate import pause

DEBUG = "TVM_NEOCPU_DEBUG"
_PRINT, _VERIFY = "print", "verify"


class Pass(Protocol):
    """A graph pass: a frozen value with a name that maps a module to a module."""

    @property
    def name(self) -> str: ...

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule: ...


def run_passes(mod: tvm.IRModule, *passes: Pass) -> tvm.IRModule:
    """Apply passes in order.

    Raises ValueError with the name of a pass that left a broken module, NeoCpuError for an unknown
    word in the variable.
    """
    wanted = debug_words()
    for step in passes:
        with PYTHON_LOCK:
            mod = step(mod)
        pause()
        if _PRINT in wanted:
            print(f"# after {step.name}\n{mod.script()}", file=sys.stderr)
        if _VERIFY in wanted and not relax.analysis.check_well_formed(mod):
            raise ValueError(f"{step.name} left a module that is not well formed")
    return mod


def debug_words() -> set[str]:
    """What the variable asks for. Raises NeoCpuError for another word."""
    text = os.environ.get(DEBUG, "")
    words = {word.strip() for word in text.split(",")} - {""}
    if not words <= {_PRINT, _VERIFY}:
        raise NeoCpuError(f"{DEBUG} is {_PRINT}, {_VERIFY} or {_PRINT},{_VERIFY}, not {text!r}")
    return words
