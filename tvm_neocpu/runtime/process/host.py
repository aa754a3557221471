"""This machine's CPU: LLVM's name for it, corrected by what the kernel says it can execute.

LLVM goes by the model number. A hypervisor may hide features of that model, mostly AVX-512, and
code that uses them dies of an illegal instruction. It may also show an older model's number.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import TYPE_CHECKING

import tvm_ffi

from tvm_neocpu.core.machine.amx_permission import FEATURES, REQUEST

if TYPE_CHECKING:
    from _typeshed import StrPath

# Linux's flag -> LLVM's feature, for the features that change the code we generate.
_X86_FEATURES = {
    "ssse3": "ssse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "popcnt": "popcnt",
    "movbe": "movbe",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "bmi2": "bmi2",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "fma4": "fma4",
    "xop": "xop",
    "tbm": "tbm",
    "f16c": "f16c",
    "gfni": "gfni",
    "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq",
    "avx_vnni": "avxvnni",
    "avx_vnni_int8": "avxvnniint8",
    "avx_ifma": "avxifma",
    "avx_ne_convert": "avxneconvert",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512_vp2intersect": "avx512vp2intersect",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
}
_ARM_FEATURES = {
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdhp": "fullfp16",
    "atomics": "lse",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
}
# LLVM's names of the features that Linux lists and that change our code.
TRACKED_FEATURES = frozenset({*_X86_FEATURES.values(), *_ARM_FEATURES.values()})


def arch() -> str:
    """This machine's architecture, as `arch_of` spells it."""
    return arch_of(platform.machine())


def triple() -> str:
    """The LLVM triple of this machine; without the compiler, its architecture alone."""
    return _from_llvm("target.llvm_get_system_triple") or arch()


def arch_of(llvm_triple: str) -> str:
    """The architecture of a triple, in one spelling: ``arm64-apple-macos`` -> ``aarch64``."""
    arch = llvm_triple.split("-", 1)[0].lower()
    return {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64"}.get(arch, arch)


def cpu_name() -> str:
    """LLVM's name of this machine's CPU; ``"unknown"`` without the compiler."""
    return _from_llvm("target.llvm_get_system_cpu") or "unknown"


def cpuinfo_entry(cpuinfo: StrPath, *names: str) -> str | None:
    """What cpuinfo's first line of one of the names says; ``None`` without one."""
    try:
        with open(cpuinfo) as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in names:
            return value.strip()
    return None


@cache
def vendor(cpuinfo: StrPath = "/proc/cpuinfo") -> str:
    """``"GenuineIntel"``, ``"AuthenticAMD"``; empty where Linux names none, as on ARM."""
    return cpuinfo_entry(cpuinfo, "vendor_id") or ""


@cache
def executable_features(cpuinfo: StrPath = "/proc/cpuinfo") -> frozenset[str] | None:
    """LLVM's names of this machine's vector features; ``None`` without a readable ``cpuinfo``."""
    flags = cpuinfo_entry(cpuinfo, "flags", "Features")
    if flags is None:
        return None
    table = {**_X86_FEATURES, **_ARM_FEATURES}
    found = frozenset(table[flag] for flag in flags.split() if flag in table)
    return found if found.isdisjoint(FEATURES) or lends_tiles() else found - FEATURES


@cache
def lends_tiles() -> bool:
    """Whether Linux lets this process use AMX's registers; old kernels and sandboxes do not."""
    if platform.system() != "Linux" or arch() != "x86_64":
        return False
    syscall = ctypes.CDLL(None).syscall
    return int(syscall(*map(ctypes.c_long, REQUEST))) == 0


def missing_features(wanted: frozenset[str], llvm_triple: str) -> tuple[str, ...]:
    """The features that this machine lacks to run such code, sorted; empty if it can run it.

    For another architecture the result is the name of that architecture alone.
    """
    if arch_of(llvm_triple) != arch():
        return (arch_of(llvm_triple),)
    here = executable_features()
    if here is None:
        return ()
    return tuple(sorted((wanted & TRACKED_FEATURES) - here))


def _from_llvm(function: str) -> str:
    """LLVM's answer; empty in a process that has not loaded the compiler."""
    ask = tvm_ffi.get_global_func(function, allow_missing=True)
    return str(ask()) if ask is not None else ""
