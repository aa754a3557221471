"""A scheduled module as the virtual machine's program and the kernels that it calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, relax, tirx
from tvm.ir.transform import PassContext
from tvm.relax import _ffi_api
from tvm.target import Target

from tvm_neocpu.codegen.bytecode.stored_module import executable_of, module_of
from tvm_neocpu.codegen.bytecode.tail_calls import with_jumps
from tvm_neocpu.codegen.empty_constants import without_empty_constants
from tvm_neocpu.codegen.interrupt_check import CHECK, interrupt_check
from tvm_neocpu.codegen.kernel_key import GLOBAL_SYMBOL
from tvm_neocpu.codegen.kernel_objects import static_libraries
from tvm_neocpu.codegen.kernel_store import KernelStore, current_store
from tvm_neocpu.codegen.kernels import build_module, compile_kernels
from tvm_neocpu.runtime.process import host

# The function that says which CPU objects are for.
MARKER = "neocpu_target"
# The attribute of a Relax function that calls itself, last of all, for each trip of a loop.
LOOP = "neocpu.loop"


@dataclass(frozen=True)
class Program:
    """What the virtual machine runs, before its kernels are compiled.

    ``loops`` are its functions that call themselves for each trip of a loop; ``check`` is the
    function that each trip calls.
    """

    builder: relax.ExecBuilder
    kernels: dict[str, tirx.PrimFunc]
    constants: dict[str, Any]
    loops: tuple[str, ...] = ()
    check: str | None = None

    def linked(self, libraries: tuple[tvm.runtime.Module, ...], target: Target) -> Any:
        """The executable; ``libraries`` have the kernels that TVM's registry has not."""
        first, *others = libraries or (None,)
        linked = _ffi_api.VMLink(self.builder, target, first, others, self.constants)
        return relax.VMExecutable(self._jumping(linked) if self.loops else linked)

    def _jumping(self, linked: tvm.runtime.Module) -> tvm.runtime.Module:
        """The executable whose loops are jumps. Raises UnknownBytecodeError."""
        made = module_of(with_jumps(executable_of(linked), self.loops, self.check))
        for part in linked.imports:
            made.import_module(part)
        return made


def lowered_of(scheduled: tvm.IRModule, target: Target) -> tvm.IRModule:
    """A module whose functions are scheduled, as calls of the virtual machine and loops.

    One with loops has a function more, which their trips call: :data:`CHECK`.
    """
    with target:
        lowered = relax.get_pipeline("default")(without_empty_constants(scheduled))
    check = interrupt_check(target) if _loops_of(lowered) else None
    if check is not None:
        lowered.update_func(ir.GlobalVar(CHECK), check)
    return lowered


def program_of(lowered: tvm.IRModule, symbols: Mapping[str, str] | None = None) -> Program:
    """The program of a lowered module, and what it calls.

    With ``symbols`` it calls, in a kernel's place, what has that symbol, and has no kernels.
    """
    attrs = dict(lowered.attrs) if lowered.attrs else {}
    builder = relax.ExecBuilder()
    rest = _ffi_api.VMCodeGen(builder, _calling(symbols, lowered) if symbols else lowered)
    constants = dict(attrs.get("const_name_to_constant", {}))
    check = (symbols or {}).get(CHECK, CHECK) if CHECK in kernels_of(lowered) else None
    return Program(builder, kernels_of(rest), constants, _loops_of(lowered), check)


def kernels_of(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """The loops of a module, by name."""
    return {
        str(var.name_hint): func
        for var, func in mod.functions.items()
        if isinstance(func, tirx.PrimFunc)
    }


def _loops_of(lowered: tvm.IRModule) -> tuple[str, ...]:
    return tuple(
        str(var.name_hint)
        for var, func in lowered.functions.items()
        if isinstance(func, relax.Function) and func.attrs and LOOP in func.attrs
    )


def _calling(symbols: Mapping[str, str], lowered: tvm.IRModule) -> tvm.IRModule:
    """The module with functions of other modules in the place of its kernels."""
    changed = lowered.clone()
    for var, func in lowered.functions_items():
        if isinstance(func, tirx.PrimFunc):
            changed.update_func(var, relax.ExternFunc(symbols[str(var.name_hint)]))
    return changed


def compile_network(scheduled: tvm.IRModule, target: Target) -> Any:
    """The executable of a scheduled module, as ``tvm.compile`` makes it.

    Inside of :func:`.kernel_store.kernels_kept` its kernels are objects: it runs when it has been
    exported.
    """
    lowered = lowered_of(scheduled, target)
    store = current_store(target)
    if store is not None:
        return _of_objects(lowered, target, store)
    program = program_of(lowered)
    libraries = compile_kernels(program.kernels, target)
    return program.linked(tuple(libraries.values()), target)


def _of_objects(lowered: tvm.IRModule, target: Target, store: KernelStore) -> Any:
    objects = store.objects(kernels_of(lowered))
    program = program_of(lowered, {name: each.symbol for name, each in objects.items()})
    libraries = static_libraries(tuple(objects.values()))
    if host.arch_of(str(target.attrs.get("mtriple", "") or host.triple())) != host.arch():
        libraries = (*libraries, _marker(target))
    return program.linked(libraries, target)


def _marker(target: Target) -> tvm.runtime.Module:
    """A module of LLVM with a function that nobody calls.

    Of objects alone TVM writes what binds them for this machine, whosever they are.
    """
    nothing = tirx.PrimFunc([], tirx.Evaluate(0)).with_attr(GLOBAL_SYMBOL, MARKER)
    return build_module({MARKER: nothing}, target, PassContext.current())
