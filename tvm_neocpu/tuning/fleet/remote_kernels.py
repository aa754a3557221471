"""Libraries for servers: kernels compiled and linked once, networks of a few kilobytes each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import _ffi_api
from tvm.target import Target

from tvm_neocpu.codegen.kernel_cache import GLOBAL_SYMBOL, KernelCache
from tvm_neocpu.codegen.network import kernels_of
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
    """As :class:`KernelCache`, for another machine: kernels lie in libraries in ``folder``."""

    def __init__(self, target: Target, link: Linker, folder: Path) -> None:
        super().__init__(target)
        self._link = link
        self._folder = folder
        self._count = 0
        self._clock = self._linked_kernels({STAMP: stamp_kernel()})

    def linked(self, scheduled: tvm.IRModule) -> LinkedNetwork:
        """The network of a scheduled module; only kernels not seen before are compiled."""
        with self._target:
            lowered = relax.get_pipeline("default")(scheduled)
        kernels: Mapping[str, _Kernel] = self._kernels(kernels_of(lowered))
        network = stamp_network(lowered, {name: each.symbol for name, each in kernels.items()})
        builder = relax.ExecBuilder()
        rest = _ffi_api.VMCodeGen(builder, network.module)
        assert not rest.functions, "a network without kernels is the virtual machine's alone"
        program = _ffi_api.VMLink(builder, self._target, None, [], {})
        libraries = dict.fromkeys(each.library for each in kernels.values())
        return LinkedNetwork(network, self._export(program), [self._clock, *libraries])

    def _compile(self, missing: Mapping[int, tirx.PrimFunc]) -> None:
        if not missing:
            return
        named = {f"kernel_{key & (2**64 - 1):x}": key for key in missing}
        library = self._linked_kernels({name: missing[key] for name, key in named.items()})
        for name, key in named.items():
            self._known[key] = (missing[key], _Kernel(name, library))
        self.compiled += len(missing)

    def _linked_kernels(self, functions: Mapping[str, tirx.PrimFunc]) -> Path:
        named = {name: f.with_attr(GLOBAL_SYMBOL, name) for name, f in functions.items()}
        return self._export(tvm.tirx.build(tvm.IRModule(named), target=self._target))

    def _export(self, module: Any) -> Path:
        self._count += 1
        path = self._folder / f"{self._count}.so"
        module.export_library(str(path), fcompile=self._link)
        return path
