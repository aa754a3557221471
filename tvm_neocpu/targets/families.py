"""What LLVM does not tell about a CPU: caches, issue widths and bandwidths of CPUs not at hand.

A family holds only the fields in which it differs from the defaults of
:class:`core.machine.cpu.Cpu`; a CPU without a line here has all the defaults. :func:`origin_of`
says where a figure comes from:

- *vendor*: sizes of L1 and L2, issue widths and latencies, from the guides in :data:`GUIDES`;
- *published*: what others measured or wrote down, on the machine that :data:`PUBLISHED` names;
- *compiled*: seen in the code that LLVM writes for the core;
- *measured*: by `calibrate` or in networks, on the machine that :data:`MEASURED` names;
- *guess*: all others. Most are bandwidths: they depend on the memory that a board has, and nobody
  measured them as `calibrate` would (a single core that streams, all cores that share).

`python -m tvm_neocpu.calibrate` replaces all but the sizes of L1 and L2 by what the machine shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeAlias

from tvm_neocpu.core.machine.cpu import KIB, MIB, Cpu

# Field of `Cpu` -> value: bytes, GHz, vector instructions or bytes per cycle, cycles.
Family: TypeAlias = Mapping[str, float]

# The fields of a CPU that are figures.
FIGURES = frozenset(field.name for field in fields(Cpu) if type(field.default) in (int, float))


def family(base: Family | None = None, /, **changes: float) -> Family:
    """``base`` with ``changes``. Raises TypeError for a name that is no figure of :class:`Cpu`."""
    unknown = sorted(changes.keys() - FIGURES)
    if unknown:
        raise TypeError(f"Cpu has no figure {', '.join(unknown)}")
    return {**(base or {}), **changes}


_SKYLAKE = family(l2=256 * KIB, ghz=3.0)
_HASWELL = family(_SKYLAKE, fma_latency=5)
_SKYLAKE_X = family(l3=24 * MIB)
# Bandwidths of its successor of a year later, which has the same cores.
_SAPPHIRE_RAPIDS = family(
    l1=48 * KIB,
    l2=2 * MIB,
    l3=48 * MIB,
    l2_bytes_per_cycle=47.6,
    l3_bytes_per_cycle=5.9,
    dram_bytes_per_cycle=6.0,
    dram_total_bytes_per_cycle=10.4,
)
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
    # One load of 512 bits a cycle, a broadcast too, where Intel's manual promises two; of 256 bits
    # two issue. A tile of one vector reaches half of the peak, of two 95 %.
    "icelake-server": family(
        l1=48 * KIB,
        l2=1280 * KIB,
        l3=32 * MIB,
        ghz=2.8,
        load_per_cycle=1,
        l2_bytes_per_cycle=46.7,
        l3_bytes_per_cycle=8.2,
        dram_bytes_per_cycle=4.6,
        dram_total_bytes_per_cycle=9.0,
    ),
    "sapphirerapids": _SAPPHIRE_RAPIDS,
    "emeraldrapids": _SAPPHIRE_RAPIDS,
    "graniterapids": family(
        _SAPPHIRE_RAPIDS,
        ghz=3.6,
        l2_bytes_per_cycle=51.1,
        l3_bytes_per_cycle=4.7,
        dram_bytes_per_cycle=4.4,
        dram_total_bytes_per_cycle=8.6,
    ),
    "znver1": family(_ZEN, fma_per_cycle=1, load_per_cycle=1, fma_latency=5),
    "znver2": family(_ZEN, l3=16 * MIB, fma_latency=5),
    "znver3": family(
        _ZEN,
        l3=32 * MIB,
        ghz=3.2,
        l3_bytes_per_cycle=17.0,
        dram_bytes_per_cycle=5.6,
        dram_total_bytes_per_cycle=9.7,
    ),
    # A 512-bit instruction takes both halves of Zen 4's vector units.
    "znver4": family(
        l3=32 * MIB,
        ghz=3.7,
        fma_per_cycle=1,
        load_per_cycle=1,
        narrow=2,
        l3_bytes_per_cycle=23.0,
        dram_bytes_per_cycle=7.4,
        dram_total_bytes_per_cycle=10.0,
    ),
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
    "neoverse-n1": family(_NEOVERSE, l2_bytes_per_cycle=19.3, spare_registers=2),
    "neoverse-n2": _NEOVERSE,
    "neoverse-v1": family(_NEOVERSE, ghz=2.6, fma_per_cycle=4, load_per_cycle=3),
    "neoverse-v2": family(_NEOVERSE, l2=2 * MIB, l3=36 * MIB, fma_per_cycle=4, load_per_cycle=3),
    "apple-m1": family(l1=128 * KIB, l2=12 * MIB, ghz=3.2, fma_per_cycle=4, load_per_cycle=3),
}
# LLVM's name -> an instruction for narrow types -> how many are issued for each multiply-add of
# fp32. Golden Cove and its successors issue one vdpbf16ps in two cycles, half of the products of
# fp32 (Emerald Rapids, 12 in a row: 0.50 a cycle, multiply-adds and vpdpbusd 1.9-2.0).
DOT_RATES: dict[str, Mapping[str, float]] = {
    name: {"vdpbf16ps": 0.25} for name in ("sapphirerapids", "emeraldrapids", "graniterapids")
}
_BANDWIDTHS = frozenset(
    ("l3_bytes_per_cycle", "dram_bytes_per_cycle", "dram_total_bytes_per_cycle", "ghz")
)
_EMERALD_RAPIDS = (
    "Intel Xeon of the Emerald Rapids generation, 2 cores of a virtual machine",
    (_BANDWIDTHS - {"ghz"}) | {"l2_bytes_per_cycle"},
)
# LLVM's name -> where which figures were measured.
MEASURED: dict[str, tuple[str, frozenset[str]]] = {
    "sapphirerapids": _EMERALD_RAPIDS,
    "emeraldrapids": _EMERALD_RAPIDS,
    "graniterapids": (
        "Intel Xeon with 480 MiB of L3, shown as a Rocket Lake, 2 cores of a virtual machine",
        _BANDWIDTHS | {"l2_bytes_per_cycle"},
    ),
    "icelake-server": (
        "Intel Xeon of the Ice Lake generation, 2 cores of a virtual machine",
        _BANDWIDTHS | {"l2_bytes_per_cycle", "load_per_cycle"},
    ),
    "znver3": ("EPYC Milan, 2 cores of a virtual machine", _BANDWIDTHS | {"l2_bytes_per_cycle"}),
    "znver4": (
        "AMD EPYC of Zen 4, 2 cores of a virtual machine",
        _BANDWIDTHS | {"l2_bytes_per_cycle"},
    ),
    "znver5": ("AMD EPYC of Zen 5, 2 cores of a virtual machine", _BANDWIDTHS),
}
# LLVM's name -> the guide that its sizes of L1 and L2, issue widths and latencies are from. Of the
# Cortex-A53 and of Apple's cores no vendor published one.
_INTEL = "Intel 64 and IA-32 Architectures Optimization Reference Manual"
_AMD = "AMD Software Optimization Guide for Family"
_ARM = "Arm Software Optimization Guide,"
GUIDES: dict[str, str] = {
    **dict.fromkeys(("haswell", "broadwell", "skylake", "skylake-avx512"), _INTEL),
    **dict.fromkeys(("cascadelake", "cooperlake", "icelake-client", "icelake-server"), _INTEL),
    **dict.fromkeys(("sapphirerapids", "emeraldrapids", "graniterapids"), _INTEL),
    **dict.fromkeys(("znver1", "znver2"), f"{_AMD} 17h"),
    **dict.fromkeys(("znver3", "znver4"), f"{_AMD} 19h"),
    "znver5": f"{_AMD} 1Ah",
    "cortex-a55": f"{_ARM} Cortex-A55",
    "cortex-a510": f"{_ARM} Cortex-A510",
    "cortex-a72": f"{_ARM} Cortex-A72",
    "cortex-a76": f"{_ARM} Cortex-A76",
    "neoverse-n1": f"{_ARM} Neoverse N1",
    "neoverse-n2": f"{_ARM} Neoverse N2",
    "neoverse-v1": f"{_ARM} Neoverse V1",
    "neoverse-v2": f"{_ARM} Neoverse V2",
}
# The kernel's name of a vendor -> how its guides' titles begin.
_VENDORS = {"GenuineIntel": _INTEL, "AuthenticAMD": _AMD}
_GRAVITON2 = "AWS Graviton2, en.wikichip.org/wiki/annapurna_labs/alpine/alc12b00"
_GRAVITON3 = "AWS Graviton3, en.wikichip.org/wiki/AWS_Graviton3"
_GRAVITON4 = "AWS Graviton4, chipsandcheese.com, Arm's Neoverse V2 in AWS's Graviton 4"
_APPLE_M1 = "Mac mini of 2020, anandtech.com/show/16252"
_N1_DIVE = "chipsandcheese.com, 22 October 2021, Deep Diving Neoverse N1"
# LLVM's name -> figure -> who says so, and of which machine.
PUBLISHED: dict[str, dict[str, str]] = {
    "znver1": {"fma_latency": "en.wikichip.org/wiki/amd/microarchitectures/zen"},
    "znver2": {"l2_bytes_per_cycle": f"Ryzen 9 3950X, {_N1_DIVE} (31.6)"},
    "neoverse-n1": {
        "ghz": _GRAVITON2,
        "l3": _GRAVITON2,
        "l2_bytes_per_cycle": f"Ampere Altra, {_N1_DIVE}",
    },
    "neoverse-v1": {"ghz": _GRAVITON3, "l3": _GRAVITON3},
    "neoverse-v2": {"l3": _GRAVITON4},
    "apple-m1": {"ghz": _APPLE_M1, "l2": _APPLE_M1},
}
_COMPILED = frozenset(("spare_registers",))
_VENDOR = frozenset(("l1", "l2", "fma_per_cycle", "load_per_cycle", "fma_latency", "narrow"))
# LLVM's other names of the same CPUs.
_SPELLINGS = {"skx": "skylake-avx512", "core-avx2": "haswell"}


def canonical_name(name: str) -> str:
    """LLVM's main spelling: ``skx`` and ``skylake_avx512`` are ``skylake-avx512``."""
    dashed = name.replace("_", "-")
    return _SPELLINGS.get(dashed, dashed)


def siblings(vendor: str) -> tuple[str, ...]:
    """The listed CPUs of a vendor as Linux spells it, older ones first; none for another."""
    guide = _VENDORS.get(vendor)
    return tuple(name for name in FAMILIES if guide and GUIDES.get(name, "").startswith(guide))


def with_family(cpu: Cpu) -> Cpu:
    """The CPU with its family's figures; unchanged for a family that is not listed."""
    rates = DOT_RATES.get(cpu.name, {})
    dots = tuple(replace(dot, rate=rates.get(dot.name, dot.rate)) for dot in cpu.dots)
    return replace(cpu, dots=dots, **FAMILIES.get(cpu.name, {}))  # type: ignore[arg-type]


def origin_of(name: str, figure: str) -> str:
    """Where a CPU's figure comes from: a word of the list above."""
    return _origin_and_source(name, figure)[0]


def source_of(name: str, figure: str) -> str:
    """Who says a CPU's figure, and of which machine; empty for a guess."""
    return _origin_and_source(name, figure)[1]


def _origin_and_source(name: str, figure: str) -> tuple[str, str]:
    machine, measured = MEASURED.get(name, ("", frozenset()))
    if figure in measured:
        return "measured", machine
    published = PUBLISHED.get(name, {})
    if figure in published:
        return "published", published[figure]
    if figure in _COMPILED and figure in FAMILIES.get(name, {}):
        return "compiled", f"LLVM's code for {name}"
    if figure in _VENDOR and name in GUIDES:
        return "vendor", GUIDES[name]
    return "guess", ""
