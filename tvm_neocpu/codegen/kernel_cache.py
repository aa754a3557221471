"""Compiling networks that differ in few kernels: what was compiled before is taken again.

A build of ResNet-50 spends four of five seconds in LLVM. Between two networks of a tuning session
most functions are equal but for their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.target import Target

from tvm_neocpu.codegen.kernel_key import GLOBAL_SYMBOL
from tvm_neocpu.codegen.kernel_objects import loaded
from tvm_neocpu.codegen.kernel_store import KernelStore
from tvm_neocpu.codegen.kernels import compile_kernels
from tvm_neocpu.codegen.network import lowered_of, program_of


class KernelCache:
    """Kernels by what they compute, compiled for one target, for the life of the process.

    With a ``store`` they come from the user's cache folder, where a build finds them later.
    """

    def __init__(self, target: Target, store: KernelStore | None = None) -> None:
        self._target = target
        self._store = store
        self._known: dict[int, tuple[tirx.PrimFunc, Any]] = {}
        # Kernels that this process has not had before.
        self.compiled = 0

    def load(self, scheduled: tvm.IRModule) -> relax.VMExecutable:
        """The executable of a scheduled module; LLVM compiles only kernels it has not seen.

        The virtual machine finds kernels that are not in its module in TVM's registry, by name,
        when it loads. So load the executable before the next one is made.
        """
        program = program_of(lowered_of(scheduled, self._target))
        for name, kernel in self._kernels(program.kernels).items():
            tvm.register_global_func(name, kernel, override=True)
        return program.linked((), self._target)

    def _kernels(self, functions: Mapping[str, tirx.PrimFunc]) -> Mapping[str, Any]:
        """name -> compiled function."""
        keys: dict[str, int] = {}
        missing: dict[int, tirx.PrimFunc] = {}
        for name, func in functions.items():
            bare = func.without_attr(GLOBAL_SYMBOL)
            key = self._key(bare)
            keys[name] = key
            if key not in self._known:
                missing[key] = bare
        self._compile(missing)
        return {name: self._known[key][1] for name, key in keys.items()}

    def _key(self, bare: tirx.PrimFunc) -> int:
        """A hash that no other known function has: equal hashes are looked at."""
        key = int(tvm_ffi.structural_hash(bare))
        while key in self._known and not tvm_ffi.structural_equal(self._known[key][0], bare):
            key += 1
        return key

    def _compile(self, missing: Mapping[int, tirx.PrimFunc]) -> None:
        if not missing:
            return
        named = {f"kernel_{key & (2**64 - 1):x}": key for key in missing}
        functions = {
            name: missing[key].with_attr(GLOBAL_SYMBOL, name) for name, key in named.items()
        }
        for name, kernel in self._compiled(functions).items():
            self._known[named[name]] = (missing[named[name]], kernel)
        self.compiled += len(missing)

    def _compiled(self, functions: Mapping[str, tirx.PrimFunc]) -> dict[str, Any]:
        """name -> compiled function."""
        if self._store is not None:
            objects = self._store.objects(functions)
            library = loaded(tuple(objects.values()))
            return {name: library[each.symbol] for name, each in objects.items()}
        modules = compile_kernels(functions, self._target, at_once=True)
        return {name: library[name] for names, library in modules.items() for name in names}
