"""What LLVM does not tell about a CPU: caches and issue widths, for machines other than this one.

Sizes are those of one core (the last level: of what a cloud instance usually shows); the figures
are the vendors' optimisation guides'. A CPU without a line here gets `core.cpu.Cpu`'s defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_neocpu.core.cpu import KIB, MIB, Cpu


@dataclass(frozen=True)
class Family:
    """Cache bytes, clock, vector instructions per cycle and core, sustained bytes per cycle."""

    l1: int
    l2: int
    l3: int
    ghz: float = 2.5
    fma_per_cycle: int = 2
    load_per_cycle: int = 2
    fma_latency: int = 4
    l2_bytes_per_cycle: float = 32.0
    l3_bytes_per_cycle: float = 10.0
    dram_bytes_per_cycle: float = 4.0
    dram_total_bytes_per_cycle: float = 16.0


_SKYLAKE_X = Family(32 * KIB, 1 * MIB, 24 * MIB)
_ICELAKE_X = Family(48 * KIB, 1280 * KIB, 32 * MIB)
_SAPPHIRE_RAPIDS = Family(48 * KIB, 2 * MIB, 48 * MIB)
_HASWELL = Family(32 * KIB, 256 * KIB, 8 * MIB, ghz=3.0, fma_latency=5)
_ZEN2 = Family(32 * KIB, 512 * KIB, 16 * MIB, ghz=3.0, fma_latency=5)
_NEOVERSE = Family(64 * KIB, 1 * MIB, 32 * MIB)

# LLVM's name -> family. A 512-bit instruction takes both halves of Zen 4's vector units.
FAMILIES: dict[str, Family] = {
    "haswell": _HASWELL,
    "broadwell": _HASWELL,
    "skylake": replace(_HASWELL, fma_latency=4),
    "skylake-avx512": _SKYLAKE_X,
    "cascadelake": _SKYLAKE_X,
    "cooperlake": _SKYLAKE_X,
    "icelake-client": Family(48 * KIB, 512 * KIB, 8 * MIB, fma_per_cycle=1),
    "icelake-server": _ICELAKE_X,
    "sapphirerapids": _SAPPHIRE_RAPIDS,
    "emeraldrapids": _SAPPHIRE_RAPIDS,
    "graniterapids": _SAPPHIRE_RAPIDS,
    "znver1": replace(_ZEN2, l3=8 * MIB, fma_per_cycle=1, load_per_cycle=1),
    "znver2": _ZEN2,
    "znver3": replace(_ZEN2, l3=32 * MIB, fma_latency=4),
    "znver4": Family(32 * KIB, 1 * MIB, 32 * MIB, fma_per_cycle=1, load_per_cycle=1),
    "znver5": Family(
        48 * KIB,
        1 * MIB,
        32 * MIB,
        ghz=3.9,
        l2_bytes_per_cycle=32.0,
        l3_bytes_per_cycle=16.0,
        dram_bytes_per_cycle=10.0,
        dram_total_bytes_per_cycle=12.0,
    ),
    "cortex-a53": Family(32 * KIB, 512 * KIB, 512 * KIB, 1.4, 1, 1, 8),
    "cortex-a72": Family(32 * KIB, 1 * MIB, 1 * MIB, 1.5, 1, 1, 7),
    "cortex-a76": Family(64 * KIB, 512 * KIB, 2 * MIB, 2.4),
    "neoverse-n1": _NEOVERSE,
    "neoverse-n2": _NEOVERSE,
    "neoverse-v1": replace(_NEOVERSE, fma_per_cycle=4, load_per_cycle=3),
    "neoverse-v2": replace(_NEOVERSE, l2=2 * MIB, fma_per_cycle=4, load_per_cycle=3),
    "apple-m1": Family(128 * KIB, 12 * MIB, 8 * MIB, 3.2, 4, 3),
}
# Other names that LLVM has for the same CPUs.
_SPELLINGS = {"skx": "skylake-avx512", "core-avx2": "haswell"}


def canonical_name(name: str) -> str:
    """LLVM's main spelling: ``skx`` and ``skylake_avx512`` are ``skylake-avx512``."""
    dashed = name.replace("_", "-")
    return _SPELLINGS.get(dashed, dashed)


def with_family(cpu: Cpu) -> Cpu:
    """The CPU with its family's figures; unchanged for a family that is not listed."""
    family = FAMILIES.get(cpu.name)
    return replace(cpu, **vars(family)) if family else cpu
