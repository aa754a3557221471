"""Who links code for a target on this machine: the host's compiler, or a cross compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tvm.support import cc
from tvm.target import Target

from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.runtime.files.linker import cross_compiler, cross_name
from tvm_neocpu.runtime.process import host

Linker = Callable[..., Any]

# The clock in :mod:`.stamps` is Linux's, of 64 bits.
_SYSTEM = "linux"


def find_linker(target: Target) -> Linker:
    """What `export_library` takes as ``fcompile``. Raises TargetError where nothing links it."""
    triple = str(target.attrs.get("mtriple", "") or host.triple())
    arch = host.arch_of(triple)
    if _SYSTEM not in triple:
        raise TargetError(f"tuning on a server needs 64-bit Linux there, and {triple} is not")
    if arch == host.arch_of(host.triple()):
        if cc.get_cc() is None:
            raise TargetError("cannot link code: install gcc or clang, or set CXX")
        return cast(Linker, cc.create_shared)
    found = cross_compiler(arch)
    if found is None:
        wanted = cross_name(arch)
        raise TargetError(f"cannot link code for {triple} here: there is no {wanted}; install it")
    return cast(Linker, cc.cross_compiler(found))
