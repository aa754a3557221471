"""What LLVM does not tell about a CPU: caches, issue widths and bandwidths of CPUs not at hand.

A family holds only the fields in which it differs from the defaults of :class:`core.cpu.Cpu`; a
CPU without a line here has all the defaults. :func:`origin_of` says where a figure comes from:

- *vendor*: sizes of L1 and L2, issue widths and latencies, from the vendors' optimisation guides
  (Intel 64 and IA-32 Architectures Optimization Reference Manual; AMD Software Optimization Guides
  for Family 17h, 19h and 1Ah; Arm Software Optimization Guides of each core);
- *measured*: by `calibrate` or in networks, on the machine that :data:`MEASURED` names;
- *guess*: all others. These are clocks, L3 sizes (what a cloud instance usually shows) and the
  bandwidths of 22 families, which share the defaults: nobody measured them.

`python -m tvm_neocpu.calibrate` replaces all but the sizes of L1 and L2 by what the machine shows.
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
# LLVM's models of cores that execute in order load four pixels ahead of a multiply-add and more
# (instructions counted in the emulator: tiles of 24 accumulators spill none, of 28 a quarter).
_IN_ORDER = family(fma_per_cycle=1, load_per_cycle=1, spare_registers=5)

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
    "cortex-a53": family(_IN_ORDER, l2=512 * KIB, l3=512 * KIB, ghz=1.4, fma_latency=8),
    "cortex-a55": family(_IN_ORDER, l2=128 * KIB, l3=1 * MIB, ghz=1.8),
    "cortex-a510": family(_IN_ORDER, l2=512 * KIB, ghz=1.8),
    "cortex-a72": family(l3=1 * MIB, ghz=1.5, fma_per_cycle=1, load_per_cycle=1, fma_latency=7),
    "cortex-a76": family(l1=64 * KIB, l2=512 * KIB, l3=2 * MIB, ghz=2.4),
    # LLVM's model of this core keeps one pixel more in registers than those of its siblings do.
    "neoverse-n1": family(_NEOVERSE, spare_registers=2),
    "neoverse-n2": _NEOVERSE,
    "neoverse-v1": family(_NEOVERSE, fma_per_cycle=4, load_per_cycle=3),
    "neoverse-v2": family(_NEOVERSE, l2=2 * MIB, fma_per_cycle=4, load_per_cycle=3),
    "apple-m1": family(l1=128 * KIB, l2=12 * MIB, ghz=3.2, fma_per_cycle=4, load_per_cycle=3),
}
_BANDWIDTHS = frozenset(
    ("l3_bytes_per_cycle", "dram_bytes_per_cycle", "dram_total_bytes_per_cycle", "ghz")
)
# LLVM's name -> where which figures were measured.
MEASURED: dict[str, tuple[str, frozenset[str]]] = {
    "znver3": ("EPYC Milan, 2 cores of a virtual machine", _BANDWIDTHS | {"l2_bytes_per_cycle"}),
    "znver5": ("AMD EPYC of Zen 5, 2 cores of a virtual machine", _BANDWIDTHS),
}
_VENDOR = frozenset(("l1", "l2", "fma_per_cycle", "load_per_cycle", "fma_latency"))
# LLVM's other names of the same CPUs.
_SPELLINGS = {"skx": "skylake-avx512", "core-avx2": "haswell"}


def canonical_name(name: str) -> str:
    """LLVM's main spelling: ``skx`` and ``skylake_avx512`` are ``skylake-avx512``."""
    dashed = name.replace("_", "-")
    return _SPELLINGS.get(dashed, dashed)


def with_family(cpu: Cpu) -> Cpu:
    """The CPU with its family's figures; unchanged for a family that is not listed."""
    return replace(cpu, **FAMILIES.get(cpu.name, {}))  # type: ignore[arg-type]


def origin_of(name: str, figure: str) -> str:
    """Where a CPU's figure comes from: ``vendor``, ``measured`` or ``guess``."""
    if figure in MEASURED.get(name, ("", frozenset()))[1]:
        return "measured"
    return "vendor" if name in FAMILIES and figure in _VENDOR else "guess"
