"""Libraries for servers: kernels compiled and linked once, networks of a few kilobytes each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx
from tvm.target import Target

from tvm_neocpu.codegen.kernel_cache import KernelCache
from tvm_neocpu.codegen.kernel_key import GLOBAL_SYMBOL
from tvm_neocpu.codegen.kernel_objects import objects_in_files
from tvm_neocpu.codegen.kernel_store import store_for
from tvm_neocpu.codegen.kernels import compile_kernels
from tvm_neocpu.codegen.network import kernels_of, lowered_of, program_of
from tvm_neocpu.tuning.fleet.linker import Linker
from tvm_neocpu.tuning.fleet.stamps import STAMP, StampedNetwork, stamp_kernel, stamp_network


@dataclass(frozen=True)
class LinkedNetwork:
    """``library`` holds the virtual machine's program, ``kernels`` what it calls."""

    network: StampedNetwork
    library: Path
    kernels: Sequence[Path]


@dataclass(frozen=True)
class _Kernel:
    symbol: str
    library: Path


class RemoteKernels(KernelCache):
    """As :class:`KernelCache`, for another machine: kernels lie in libraries in ``folder``.

    Their objects come from the user's cache folder: one process compiles what all servers run.
    """

    def __init__(self, target: Target, link: Linker, folder: Path) -> None:
        super().__init__(target, store_for(target))
        self._link = link
        self._folder = folder
        self._count = 0
        clock = stamp_kernel().with_attr(GLOBAL_SYMBOL, STAMP)
        self._clock = self._of_modules({STAMP: clock})[STAMP].library  # called by this name

    def linked(self, scheduled: tvm.IRModule) -> LinkedNetwork:
        """The network of a scheduled module; only kernels not seen before are compiled."""
        lowered = lowered_of(scheduled, self._target)
        kernels: Mapping[str, _Kernel] = self._kernels(kernels_of(lowered))
        network = stamp_network(lowered, {name: each.symbol for name, each in kernels.items()})
        program = program_of(network.module)
        assert not program.kernels, "a network without kernels is the virtual machine's alone"
        library = self._export(program.linked((), self._target).mod)
        libraries = dict.fromkeys(each.library for each in kernels.values())
        return LinkedNetwork(network, library, [self._clock, *libraries])

    def _compiled(self, functions: Mapping[str, tirx.PrimFunc]) -> dict[str, _Kernel]:
        if self._store is None:
            return self._of_modules(functions)
        objects = self._store.objects(functions)
        library = self._next_path()
        with objects_in_files(tuple(objects.values())) as files:
            self._link(str(library), list(files))
        return {name: _Kernel(each.symbol, library) for name, each in objects.items()}

    def _of_modules(self, functions: Mapping[str, tirx.PrimFunc]) -> dict[str, _Kernel]:
        found = {}
        for names, module in compile_kernels(functions, self._target).items():
            library = self._export(module)
            found.update({name: _Kernel(name, library) for name in names})
        return found

    def _export(self, module: Any) -> Path:
        path = self._next_path()
        module.export_library(str(path), fcompile=self._link)
        return path

    def _next_path(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}.so"
