"""LLVM's answers: which CPUs and features it knows, and which of them a target has."""

from __future__ import annotations

from functools import cache

from tvm.target import Target, codegen

from tvm_neocpu.runtime.process.quiet import silent_stderr
from tvm_neocpu.targets.syntax import KIND


def features_of(target: Target) -> frozenset[str]:
    """LLVM's names of the features that code for a target may use."""
    return frozenset(str(name) for name in codegen.llvm_get_cpu_features(target))


def knows_cpu(name: str, triple: str) -> bool:
    """Whether ``-mcpu=name`` exists for a triple."""
    return bool(codegen.llvm_is_valid_cpu(name, triple))


@cache
def known_cpus(triple: str) -> tuple[str, ...]:
    """Every CPU name of the triple's architecture."""
    target = Target({"kind": KIND, "mtriple": triple})
    return tuple(str(name) for name in codegen.llvm_get_cpu_archlist(target))


@cache
def known_features(triple: str) -> frozenset[str]:
    """Every feature that some CPU of the architecture has; LLVM offers no other list."""
    configs = ({"kind": KIND, "mtriple": triple, "mcpu": cpu} for cpu in known_cpus(triple))
    return frozenset().union(*(features_of(Target(config)) for config in configs))


def accepts_feature(feature: str, triple: str) -> bool:
    """Whether a feature exists that no CPU has by itself, such as ``strict-align``."""
    with silent_stderr():  # LLVM complains there in its own words; ours are one line
        target = Target({"kind": KIND, "mtriple": triple, "mattr": [f"+{feature}"]})
        return feature in features_of(target)
