"""The machine a network is compiled for: only here are vector widths and cache sizes known."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Isa:
    """A vector instruction set: register width in bits, architectural registers."""

    name: str
    vector_bits: int
    vector_registers: int


AVX512 = Isa("avx512", 512, 32)
AVX2 = Isa("avx2", 256, 16)
SSE = Isa("sse", 128, 16)
NEON = Isa("neon", 128, 32)


@dataclass(frozen=True)
class Cpu:
    """What templates and the cost model may know of a machine; sizes in bytes.

    ``name`` is LLVM's CPU name (``-mcpu``) and keys the tuning log. ``fma_per_cycle`` counts vector
    FMA instructions, ``load_per_cycle`` vector loads; bandwidths are bytes per cycle and core,
    ``dram_total_bytes_per_cycle`` what all cores together get from memory.
    """

    name: str
    isa: Isa
    cores: int
    l1: int = 32 * KIB
    l2: int = 1 * MIB
    l3: int = 8 * MIB
    ghz: float = 2.5
    fma_per_cycle: int = 2
    load_per_cycle: int = 2
    fma_latency: int = 4
    l2_bytes_per_cycle: float = 32.0
    l3_bytes_per_cycle: float = 10.0
    dram_bytes_per_cycle: float = 4.0
    dram_total_bytes_per_cycle: float = 16.0

    @property
    def lanes(self) -> int:
        """fp32 values in one vector register."""
        return self.isa.vector_bits // 32

    def holds_tile(self, pixels: int, vectors: int) -> bool:
        """Whether a register tile fits beside its weight vectors and one broadcast input."""
        return pixels * vectors + vectors + 1 <= self.isa.vector_registers

    @property
    def accumulators(self) -> int:
        """Registers a tile may hold: all but those for the weights and one broadcast input."""
        return self.isa.vector_registers - 4

    @property
    def peak_gflops(self) -> float:
        """fp32 GFLOP/s of one core."""
        return 2.0 * self.lanes * self.fma_per_cycle * self.ghz

    def with_cores(self, cores: int) -> Cpu:
        return replace(self, cores=cores)


def isa_of(features: frozenset[str]) -> Isa:
    """The widest vector ISA among LLVM's feature names (``avx512f``, ``avx2``, ``neon``...)."""
    if "avx512f" in features:
        return AVX512
    if "avx2" in features and "fma" in features:
        return AVX2
    if "neon" in features:
        return NEON
    return SSE


def cache_sizes(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[int, int]:
    """Data-cache bytes by level as Linux reports them; empty where it does not."""
    sizes: dict[int, int] = {}
    for index in sorted(root.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind == "Instruction" or not text:
            continue
        unit = {"K": KIB, "M": MIB}.get(text[-1])
        sizes[level] = int(text[:-1]) * unit if unit else int(text)
    return sizes


def physical_cores() -> int:
    """Physical cores this process may use: affinity mask, hyper-threads and cgroup quota counted.

    NeoCPU, section 3.1.2: one thread per physical core, no hyper-threading.
    """
    allowed = allowed_cpus()
    siblings = {core_key(cpu) for cpu in allowed}
    quota = _cgroup_quota()
    cores = len(siblings) or 1
    return max(1, min(cores, int(quota))) if quota else cores


def allowed_cpus() -> set[int]:
    """The logical CPUs in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def core_key(cpu: int) -> str:
    """A key that hyper-threads of one core share; the CPU itself where Linux does not tell."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return path.read_text().strip() or str(cpu)
    except OSError:
        return str(cpu)


def _cgroup_quota(
    v2: Path = Path("/sys/fs/cgroup/cpu.max"), v1: Path = Path("/sys/fs/cgroup/cpu")
) -> float | None:
    """CPUs that the container's quota grants, ``None`` without one."""
    try:
        quota, period = v2.read_text().split()
    except (OSError, ValueError):
        try:
            quota = (v1 / "cpu.cfs_quota_us").read_text().strip()
            period = (v1 / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if quota in ("max", "-1"):
        return None
    try:
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
