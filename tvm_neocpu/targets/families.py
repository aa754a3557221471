"""What LLVM does not tell about a CPU: caches, issue widths and bandwidths of CPUs not at hand.

A family holds only the fields in which it differs from the defaults of :class:`core.cpu.Cpu`; a
CPU without a line here has all the defaults. Cache sizes are those of one core; issue widths and
latencies come from the vendors' optimisation guides.

Guesses:
- L3 sizes of server CPUs: what a cloud instance usually shows.
- Clocks and bandwidths. Only those of ``znver5`` were fitted, to cold runs on an AMD Zen 5 with 2
  cores. The other 23 families share one set of bandwidths, the defaults; nobody measured them.

`python -m tvm_neocpu.calibrate` replaces clock, bandwidths and L3 size by what the machine shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeAlias

from tvm_neocpu.core.cpu import KIB, MIB, Cpu

# Field of `Cpu` -> value: bytes, GHz, vector instructions or bytes per cycle, cycles.
Family: TypeAlias = Mapping[str, float]

_FIGURES = frozenset(field.name for field in fields(Cpu) if type(field.default) in (int, float))


def family(base: Family | None = None, /, **changes: float) -> Family:
    """``base`` with ``changes``. Raises TypeError for a name that is no figure of :class:`Cpu`."""
    unknown = sorted(changes.keys() - _FIGURES)
    if unknown:
        raise TypeError(f"Cpu has no figure {', '.join(unknown)}")
    return {**(base or {}), **changes}


_SKYLAKE = family(l2=256 * KIB, ghz=3.0)
_HASWELL = family(_SKYLAKE, fma_latency=5)
_SKYLAKE_X = family(l3=24 * MIB)
_SAPPHIRE_RAPIDS = family(l1=48 * KIB, l2=2 * MIB, l3=48 * MIB)
_ZEN = family(l2=512 * KIB, ghz=3.0)
_NEOVERSE = family(l1=64 * KIB, l3=32 * MIB)

# LLVM's name -> family.
FAMILIES: dict[str, Family] = {
    "haswell": _HASWELL,
    "broadwell": _HASWELL,
    "skylake": _SKYLAKE,
    "skylake-avx512": _SKYLAKE_X,
    "cascadelake": _SKYLAKE_X,
    "cooperlake": _SKYLAKE_X,
    "icelake-client": family(l1=48 * KIB, l2=512 * KIB, fma_per_cycle=1),
    "icelake-server": family(l1=48 * KIB, l2=1280 * KIB, l3=32 * MIB),
    "sapphirerapids": _SAPPHIRE_RAPIDS,
    "emeraldrapids": _SAPPHIRE_RAPIDS,
    "graniterapids": _SAPPHIRE_RAPIDS,
    "znver1": family(_ZEN, fma_per_cycle=1, load_per_cycle=1, fma_latency=5),
    "znver2": family(_ZEN, l3=16 * MIB, fma_latency=5),
    # Measured on two cores of an EPYC Milan (virtual machine) by `calibrate`.
    "znver3": family(
        _ZEN,
        l3=32 * MIB,
        ghz=3.2,
        l3_bytes_per_cycle=17.0,
        dram_bytes_per_cycle=6.5,
        dram_total_bytes_per_cycle=13.5,
    ),
    # A 512-bit instruction takes both halves of Zen 4's vector units.
    "znver4": family(l3=32 * MIB, fma_per_cycle=1, load_per_cycle=1),
    "znver5": family(
        l1=48 * KIB,
        l3=32 * MIB,
        ghz=3.9,
        l3_bytes_per_cycle=16.0,
        dram_bytes_per_cycle=10.0,
        dram_total_bytes_per_cycle=12.0,
    ),
    "cortex-a53": family(
        l2=512 * KIB, l3=512 * KIB, ghz=1.4, fma_per_cycle=1, load_per_cycle=1, fma_latency=8
    ),
    "cortex-a72": family(l3=1 * MIB, ghz=1.5, fma_per_cycle=1, load_per_cycle=1, fma_latency=7),
    "cortex-a76": family(l1=64 * KIB, l2=512 * KIB, l3=2 * MIB, ghz=2.4),
    "neoverse-n1": _NEOVERSE,
    "neoverse-n2": _NEOVERSE,
    "neoverse-v1": family(_NEOVERSE, fma_per_cycle=4, load_per_cycle=3),
    "neoverse-v2": family(_NEOVERSE, l2=2 * MIB, fma_per_cycle=4, load_per_cycle=3),
    "apple-m1": family(l1=128 * KIB, l2=12 * MIB, ghz=3.2, fma_per_cycle=4, load_per_cycle=3),
}
# LLVM's other names of the same CPUs.
_SPELLINGS = {"skx": "skylake-avx512", "core-avx2": "haswell"}


def canonical_name(name: str) -> str:
    """LLVM's main spelling: ``skx`` and ``skylake_avx512`` are ``skylake-avx512``."""
    dashed = name.replace("_", "-")
    return _SPELLINGS.get(dashed, dashed)


def with_family(cpu: Cpu) -> Cpu:
    """The CPU with its family's figures; unchanged for a family that is not listed."""
    return replace(cpu, **FAMILIES.get(cpu.name, {}))  # type: ignore[arg-type]
