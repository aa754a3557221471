"""CDUCA's cost model: memory time, compute time, and how far one hides the other.

Its terms come from :class:`Cpu` alone. What a template knows about itself (instructions of its
inner loop, bytes that cross each cache boundary) it says in a :class:`Work`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_neocpu.core.cpu import Cpu

# Share of the shorter of cache and compute time that out-of-order execution cannot hide.
EXPOSED = 0.15
# Cycles that a load which fits its issue slot still costs: bank conflicts, split lines.
LOAD_CONTENTION = 0.03
# Cost of a parallel region's fork and join, seconds.
FORK_JOIN = 2e-6


@dataclass(frozen=True)
class Work:
    """What one kernel does in all; bytes are those that pass from a level to the next inner one.

    ``cycles`` are core cycles of instruction issue over all chunks; ``chunks`` the trip count of
    the parallel loop, which bounds how evenly the cores share the work.
    """

    cycles: float
    chunks: int
    from_l2: float
    from_l3: float
    from_dram: float


def seconds(work: Work, cpu: Cpu) -> float:
    """Predicted seconds on ``cpu.cores`` threads."""
    share = math.ceil(work.chunks / cpu.cores) / work.chunks
    cached = work.from_l2 / cpu.l2_bytes_per_cycle + work.from_l3 / cpu.l3_bytes_per_cycle
    streams = min(1 / share * cpu.dram_bytes_per_cycle, cpu.dram_total_bytes_per_cycle)
    compute, memory = work.cycles * share, cached * share
    longer, shorter = max(compute, memory), min(compute, memory)
    # Nothing hides memory: weights that other layers pushed out of the caches come at full price
    # (ResNet-50's 14x14 Winograd layers: 390 us with weights in L3, 630 us in the network).
    cycles = longer + EXPOSED * shorter + work.from_dram / streams
    return cycles / (cpu.ghz * 1e9) + FORK_JOIN


def vector_registers(block: int, cpu: Cpu) -> int:
    """Registers that a block of channels takes; ``steps.vectorize_lanes`` splits it by powers of 2.

    ``vector_registers(48, avx512) == 3``, ``vector_registers(12, avx512) == 3`` (of 4 lanes each).
    """
    return block // min(block & -block, cpu.lanes)


def tile_step_cycles(pixels: int, vectors: int, cpu: Cpu) -> float:
    """Cycles of one reduction step of a register tile: ``vectors`` weights, ``pixels`` inputs.

    Bounded by FMA issue, by loads, and by FMA latency when the tile has too few accumulators.
    """
    fmas = pixels * vectors
    loads = vectors + pixels
    spilled = max(0, fmas + vectors + 1 - cpu.isa.vector_registers)
    bound = max(fmas / cpu.fma_per_cycle, loads / cpu.load_per_cycle, cpu.fma_latency)
    return bound + LOAD_CONTENTION * loads + 2.0 * spilled
