"""Several lowered networks in one module, equal constants stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.ir import GenericConst, GlobalVar
from tvm.relax.expr import _update_type

from tvm_neocpu.relay_passes.ir.constants import array_of

SYMBOL = "global_symbol"


def merge_networks(networks: Mapping[str, tvm.IRModule]) -> tvm.IRModule:
    """The module that has each network's ``main`` under the network's name.

    Functions that networks have under the same name get numbers. Constants that are equal become
    one object, which a built module stores once.
    """
    merger = _Merger()
    for name, mod in networks.items():
        merger.add(name, mod)
    return tvm.IRModule(merger.functions)


class _Merger:
    def __init__(self) -> None:
        self.functions: dict[GlobalVar, Any] = {}
        self._taken: set[str] = set()
        self._constants: dict[tuple[Any, ...], GenericConst] = {}

    def add(self, network: str, mod: tvm.IRModule) -> None:
        names: dict[str, GlobalVar] = {}

        def renamed(name: GlobalVar) -> GlobalVar:
            old = str(name.name_hint)
            if old not in names:
                new = network if old == "main" else self._free_name(old)
                names[old] = _named(new, name)
            return names[old]

        rules = [(GlobalVar, renamed), (GenericConst, self._shared)]
        self._taken.add(network)
        for name, func in mod.functions.items():
            mapped = tvm_ffi.structural_map(func, rules)
            if mapped.attrs and SYMBOL in mapped.attrs:
                mapped = mapped.with_attr(SYMBOL, renamed(name).name_hint)
            self.functions[renamed(name)] = mapped

    def _free_name(self, name: str) -> str:
        free, number = name, 0
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(free)
        return free

    def _shared(self, constant: GenericConst) -> GenericConst:
        array = array_of(constant)
        if array is None:
            return constant
        digest = hashlib.sha256(array.reshape(-1).view(np.uint8)).digest()
        key = (array.shape, str(array.dtype), digest)
        return self._constants.setdefault(key, constant)


def _named(name: str, old: GlobalVar) -> GlobalVar:
    new = GlobalVar(name)
    _update_type(new, old.ty)
    return new


def as_private(mod: tvm.IRModule, name: str) -> tvm.IRModule:
    """The module whose function of that name is called from inside only."""
    private = mod.clone()
    private[name] = mod[name].without_attr(SYMBOL)
    return private
