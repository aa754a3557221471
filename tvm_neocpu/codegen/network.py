"""A scheduled module as the virtual machine's program and the kernels that it calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import _ffi_api
from tvm.target import Target

from tvm_neocpu.codegen.kernels import compile_kernels


@dataclass(frozen=True)
class Program:
    """What the virtual machine runs, before its kernels are compiled."""

    builder: relax.ExecBuilder
    kernels: dict[str, tirx.PrimFunc]
    constants: dict[str, Any]

    def linked(self, libraries: tuple[tvm.runtime.Module, ...], target: Target) -> Any:
        """The executable; ``libraries`` have the kernels that TVM's registry has not."""
        first, *others = libraries or (None,)
        linked = _ffi_api.VMLink(self.builder, target, first, others, self.constants)
        return relax.VMExecutable(linked)


def lowered_of(scheduled: tvm.IRModule, target: Target) -> tvm.IRModule:
    """A module whose functions are scheduled, as calls of the virtual machine and loops."""
    with target:
        return relax.get_pipeline("default")(scheduled)


def program_of(lowered: tvm.IRModule) -> Program:
    """The program of a lowered module, and what it calls."""
    attrs = dict(lowered.attrs) if lowered.attrs else {}
    builder = relax.ExecBuilder()
    rest = _ffi_api.VMCodeGen(builder, lowered)
    return Program(builder, kernels_of(rest), dict(attrs.get("const_name_to_constant", {})))


def kernels_of(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """The loops of a module, by name."""
    return {
        str(var.name_hint): func
        for var, func in mod.functions.items()
        if isinstance(func, tirx.PrimFunc)
    }


def compile_network(scheduled: tvm.IRModule, target: Target) -> Any:
    """The executable of a scheduled module, as ``tvm.compile`` makes it."""
    program = program_of(lowered_of(scheduled, target))
    libraries = compile_kernels(program.kernels, target)
    return program.linked(tuple(libraries.values()), target)
