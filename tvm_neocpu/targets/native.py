"""This machine as a target: which CPU LLVM should take it for, and which features differ.

LLVM names a CPU by its model number. A hypervisor may hide features of that model. It may also show
another number, an older CPU's or one that no CPU has: a Granite Rapids shown as a Rocket Lake would
run without bf16 and AMX, an AVX-512 machine shown as ``qemu64`` in 128-bit vectors. Linux's list of
features counts: those that the model lacks are switched on.
"""

from __future__ import annotations

from functools import cache

from tvm.target import Target

from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.targets import llvm
from tvm_neocpu.targets.families import siblings
from tvm_neocpu.targets.syntax import KIND


def native_cpu() -> str:
    """LLVM's name of the CPU that this machine's features are those of.

    It is LLVM's own answer unless the machine executes features that the answer lacks and a listed
    CPU of the same vendor has more of them. ``"generic"`` for one that it cannot compile for.
    """
    name = host_cpu.cpu_name()
    known = name if llvm.knows_cpu(name, host_cpu.triple()) else "generic"
    return _nearest(known, host_cpu.vendor(), host_cpu.executable_features())


def native_attributes() -> list[str]:
    """The features in which this machine differs from :func:`native_cpu`: ``["-avx512f"]``."""
    here = host_cpu.executable_features()
    if here is None:
        return []
    model = _tracked(native_cpu())
    hidden = (f"-{feature}" for feature in sorted(model - here))
    shown = (f"+{feature}" for feature in sorted(here - model))
    return [*hidden, *shown]


@cache
def _nearest(name: str, vendor: str, here: frozenset[str] | None) -> str:
    """``name``, or the vendor's CPU that has most of the features ``here`` and no other."""
    if here is None or here <= _tracked(name):
        return name
    fitting = [other for other in siblings(vendor) if _tracked(other) <= here]
    # The latest of those that are alike: an Ice Lake server, not a client.
    best = max(reversed(fitting), key=lambda other: len(_tracked(other)), default=name)
    return best if len(_tracked(best)) > len(_tracked(name) & here) else name


@cache
def _tracked(name: str) -> frozenset[str]:
    """The features of a CPU that Linux lists, too."""
    return llvm.features_of(Target({"kind": KIND, "mcpu": name})) & host_cpu.TRACKED_FEATURES
