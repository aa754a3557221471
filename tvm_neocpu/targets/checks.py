"""Checks of a target dictionary's names: each raises TargetError with one line for a bad one.

TVM and LLVM accept most bad names in silence and generate code for a slow generic CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.target import Target

from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.targets import llvm
from tvm_neocpu.targets.syntax import KIND, suggestion

# The schedules are made for these architectures; code for LLVM's other back ends would be slow.
ARCHITECTURES = ("x86_64", "aarch64")
_CROSS_TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


def check_kind(config: Mapping[str, Any]) -> None:
    """The kind is LLVM's CPU back end."""
    kind = str(config["kind"])
    if kind == KIND:
        return
    if kind in Target.list_kinds():
        raise TargetError(f'target kind {kind!r} is not a CPU; tvm_neocpu compiles for "{KIND}"')
    raise TargetError(f'unknown target {kind!r}; expected "{KIND} -mcpu=NAME" or "native"')


def check_options(config: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Every key is one of TVM's ``options`` for the kind, or a derived ``feature.``."""
    for name in config:
        if name not in options and not name.startswith("feature."):
            raise TargetError(f"unknown target option {name!r}{suggestion(name, options)}")


def check_triple(triple: str) -> None:
    """The triple's architecture is one of ``ARCHITECTURES``."""
    # LLVM crashes the process when it is asked about a triple that it does not know.
    arch = host_cpu.arch_of(triple)
    if arch not in ARCHITECTURES:
        hint = suggestion(arch, ARCHITECTURES) or f"; known are {', '.join(ARCHITECTURES)}"
        raise TargetError(f"-mtriple={triple}: unsupported architecture {arch!r}{hint}")


def check_cpu(name: str, triple: str) -> None:
    """LLVM has the CPU ``name`` for the triple's architecture."""
    if llvm.knows_cpu(name, triple):
        return
    arch = host_cpu.arch_of(triple)
    for other in ARCHITECTURES:
        if other != arch and llvm.knows_cpu(name, _CROSS_TRIPLES[other]):
            triple_flag = f"-mtriple={_CROSS_TRIPLES[other]}"
            raise TargetError(f"-mcpu={name} is an {other} CPU, not {arch}: add {triple_flag}")
    hint = suggestion(name, llvm.known_cpus(triple))
    raise TargetError(f"LLVM does not know -mcpu={name} for {arch}{hint}")


def check_attributes(config: Mapping[str, Any], triple: str) -> None:
    """Every entry of ``mattr`` is ``+feature`` or ``-feature``, and LLVM knows the feature."""
    for attribute in config.get("mattr", ()):
        sign, name = attribute[:1], attribute[1:]
        if sign not in ("+", "-") or not name:
            raise TargetError(f"a -mattr feature starts with + or -: +{attribute}")
        known = llvm.known_features(triple)
        if name in known or llvm.accepts_feature(name, triple):
            continue
        hint = suggestion(name, known, sign)
        raise TargetError(f"LLVM does not know the feature {name!r} in -mattr{hint}")
