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
from tvm.relax import _ffi_api
from tvm.target import Target

GLOBAL_SYMBOL = "global_symbol"


class KernelCache:
    """Kernels by what they compute, compiled for one target, for the life of the process."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[int, tuple[tirx.PrimFunc, Any]] = {}
        self.compiled = 0

    def load(self, scheduled: tvm.IRModule) -> relax.VMExecutable:
        """The executable of a scheduled module; LLVM compiles only kernels it has not seen.

        The virtual machine finds kernels that are not in its module in TVM's registry, by name,
        when it loads. So load the executable before the next one is made.
        """
        with self._target:
            lowered = relax.get_pipeline("default")(scheduled)
        attrs = dict(lowered.attrs) if lowered.attrs else {}
        builder = relax.ExecBuilder()
        rest = _ffi_api.VMCodeGen(builder, lowered)
        for name, kernel in self._kernels(rest).items():
            tvm.register_global_func(name, kernel, override=True)
        constants = dict(attrs.get("const_name_to_constant", {}))
        linked = _ffi_api.VMLink(builder, self._target, None, [], constants)
        return relax.VMExecutable(linked)

    def _kernels(self, rest: tvm.IRModule) -> Mapping[str, Any]:
        """name -> compiled function, for every PrimFunc."""
        keys: dict[str, int] = {}
        missing: dict[int, tirx.PrimFunc] = {}
        for var, func in rest.functions.items():
            if not isinstance(func, tirx.PrimFunc):
                continue
            bare = func.without_attr(GLOBAL_SYMBOL)
            key = self._key(bare)
            keys[str(var.name_hint)] = key
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
        module = tvm.IRModule(
            {name: missing[key].with_attr(GLOBAL_SYMBOL, name) for name, key in named.items()}
        )
        library = tvm.tirx.build(module, target=self._target)
        for name, key in named.items():
            self._known[key] = (missing[key], library[name])
        self.compiled += len(missing)
