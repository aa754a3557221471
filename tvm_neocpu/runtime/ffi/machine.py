"""Relax's virtual machine, which runs a compiled network; its Python class is in the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Memory of ended tensors is kept for the next ones (`VirtualMachine.POOLED_ALLOCATOR` in TVM).
_POOLED = 2
# DLPack's number of CPUs, and which of them.
_CPU = (1, 0)


class Machine:
    """One machine over an executable: ``machine["main"]`` is a function.

    Machines of one executable share its code and constants. One machine runs one call at a time.
    """

    def __init__(self, executable: Any) -> None:
        self.module = executable["vm_load_executable"]()
        self.module["vm_initialization"](*_CPU, _POOLED)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = self.module[name]
        return found


def flat(result: Any) -> list[Any]:
    """The tensors of a result, which may be one tensor or nested arrays of them."""
    if hasattr(result, "data_ptr"):
        return [result]
    return [tensor for part in result for tensor in flat(part)]
