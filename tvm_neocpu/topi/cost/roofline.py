"""CDUCA's cost model: memory time, compute time, and how far one hides the other.

Its terms come from :class:`Cpu` alone. What a template knows about itself (instructions of its
inner loop, bytes that cross each cache boundary) it says in a :class:`Work`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.core.machine.dot import DotProduct

# Share of the shorter of cache and compute time that out-of-order execution cannot hide.
EXPOSED = 0.15
# Cycles that a load which fits its issue slot still costs: bank conflicts, split lines.
LOAD_CONTENTION = 0.03
# The same beside products that are added by themselves, which take four of six slots for new
# instructions (Zen 3, vpmaddwd: tiles of 7 x 1 vectors lose 10 % to those of 4 and 3 x 2).
CROWDED_LOAD_CONTENTION = 0.1
# Share of L1 that weights may take before the data beside them pushes them out.
PANEL_SHARE = 0.6
# Share of L2 that a working set may take and still stay in it.
L2_SHARE = 0.7
# Share of L3 that a working set may take and still stay in it from one layer to the next.
L3_SHARE = 0.5
# Smaller weights and feature maps are not prefetched. They too come from memory, but requests for
# them gained nothing in a network (docs/kernels/memory.md).
MIN_PREFETCHED_BYTES = 128 * 1024
# What a core reads from memory in so many streams, over one. Prefetchers run a few lines ahead in a
# page and stop at its end, so that one stream leaves requests unused (docs/kernels/memory.md).
STREAMS_GAIN = {1: 1.0, 2: 1.2, 3: 1.25, 4: 1.3, 5: 1.35}
# The same of all cores together, which share what memory gives: at most.
ALL_CORES_GAIN = 1.2
# Multiply-adds from which on a step of a register tile has room for a request of its own. One of 28
# takes 14 cycles; one of 8 takes 4, as many as six instructions a cycle leave for it, a request and
# its address.
LONG_STEP = 16
# Shorter steps share requests, so many of them at most.
MAX_GROUP = 4
# LLVM unrolls a loop entirely if it has no more instructions then (-O3).
FULL_LIMIT = 300
# Cycles of the loop around one that is written out, which all its steps share.
UNROLLED_CYCLES = 2.4
# LLVM mixes steps that are written out, and spills where the tile leaves fewer registers (Zen 3,
# blocks of 8, 1024x14x14->512: 6 x 2 accumulators 2670 us, 5 x 2 2130; in a loop 2180).
SPARE_REGISTERS, CROWDED_CYCLES = 2, 1.3
# Of a step in a loop: control, and the misprediction at its end, which all steps share.
ROLLED_CYCLES, LOOP_END_CYCLES = 0.25, 4.0
# A bound on rounding: sums of the same terms in another order differ by less.
SURELY = 1 + 1e-9
# Cycles of a chunk's begin and end: a call, what is done once in a loop nest, no prefetch across
# chunks (Zen 5, two threads, 256x14x14->1024: 247 us with a chunk for each tile, 234 with a chunk
# for each block of 32 channels).
CHUNK_CYCLES = 150.0


@dataclass(frozen=True)
class Traffic:
    """Bytes that pass from each level of memory to the next inner one, of one run.

    ``prefetched`` bytes come from memory too, but were requested in time: only their bandwidth
    counts.
    """

    from_l2: float
    from_l3: float
    from_dram: float
    prefetched: float = 0.0


@dataclass(frozen=True)
class Near:
    """Which maps of a layer stay in the core's own caches, as inside a group of layers.

    ``beside``: bytes of L2 that the group's other layers take, and what lies between layers.
    """

    reads: bool = False
    writes: bool = False
    beside: int = 0


# A layer by itself: what it reads was written before it began, what it writes is read behind it.
ALONE = Near()


@dataclass(frozen=True)
class Work:
    """What one kernel does in all.

    ``cycles`` are core cycles of instruction issue over all chunks. ``chunks`` is the trip count of
    the parallel loop, which bounds how evenly the cores share the work.
    """

    cycles: float
    chunks: int
    traffic: Traffic


@dataclass(frozen=True)
class Supply:
    """What chunks and bytes of a kernel take of the machine, whatever its instructions are.

    ``share`` of the work is the slowest core's; cycles of that core: ``cached`` for bytes out of
    caches, ``prefetched`` and ``cold`` for those out of memory.
    """

    chunks: int
    share: float
    cached: float
    prefetched: float
    cold: float


def in_streams(cpu: Cpu, streams: int) -> Cpu:
    """The CPU with what memory gives to cores that read so many streams each."""
    gain = STREAMS_GAIN.get(streams, 1.0)
    if gain == 1.0:
        return cpu
    return replace(
        cpu,
        dram_bytes_per_cycle=cpu.dram_bytes_per_cycle * gain,
        dram_total_bytes_per_cycle=cpu.dram_total_bytes_per_cycle * min(gain, ALL_CORES_GAIN),
    )


def supply_of(chunks: int, traffic: Traffic, cpu: Cpu) -> Supply:
    """The supply of a parallel loop of so many chunks that moves these bytes."""
    share = math.ceil(chunks / cpu.cores) / chunks
    cached = traffic.from_l2 / cpu.l2_bytes_per_cycle + traffic.from_l3 / cpu.l3_bytes_per_cycle
    streams = min(1 / share * cpu.dram_bytes_per_cycle, cpu.dram_total_bytes_per_cycle)
    prefetched, cold = traffic.prefetched / streams, traffic.from_dram / streams
    return Supply(chunks, share, cached * share, prefetched, cold)


def seconds(work: Work, cpu: Cpu) -> float:
    """Predicted seconds on ``cpu.cores`` threads."""
    return seconds_beside(work.cycles, supply_of(work.chunks, work.traffic, cpu), cpu)


def seconds_beside(cycles: float, supply: Supply, cpu: Cpu) -> float:
    """Predicted seconds of ``cycles`` of instructions, beside what moves their data."""
    compute, memory = (cycles + CHUNK_CYCLES * supply.chunks) * supply.share, supply.cached
    longer, shorter = max(compute, memory), min(compute, memory)
    taken = overlapped(longer + EXPOSED * shorter, supply.prefetched)
    # Nothing hides what is not prefetched: weights that other layers pushed out of the caches come
    # at full price (Zen 5, ResNet-50's 14x14 Winograd layers: 390 us with weights in L3, 630
    # without).
    taken += supply.cold
    return taken / (cpu.ghz * 1e9) + cpu.fork_join


def is_above(limit: float, cycles: float, cpu: Cpu) -> bool:
    """Whether so many cycles of instructions take longer than ``limit`` seconds on all cores,
    whatever :func:`seconds_beside` adds for data, chunks and threads.
    """
    return cycles > limit * SURELY * cpu.cores * cpu.ghz * 1e9


def overlapped(first: float, second: float) -> float:
    """Time of two things done at once: the longer one's, and a quarter more where they are equal.

    Fitted to Winograd on 512x7x7, Zen 5 (us): product 620 and weights from memory 420 took 640
    together, 867 and 943 took 1150. A product at the bandwidth of L2 takes 1.24 times what it does
    from L1.
    """
    return float((first**3 + second**3) ** (1 / 3))


def tile_step_cycles(
    pixels: int,
    vectors: int,
    cpu: Cpu,
    unit: VectorUnit,
    l2_bytes: float = 0.0,
    requests: float = 0.0,
    dot: DotProduct | None = None,
    widening: float = 0.0,
    share: float = 1.0,
) -> float:
    """Cycles of one reduction step of a register tile: ``vectors`` weights, ``pixels`` inputs.

    Bounded by FMA issue, by loads, by FMA latency when the tile has too few accumulators, and by
    the ``l2_bytes`` of weights that a step takes from L2 when the tile's panel outgrows L1. Each of
    its ``requests`` to prefetch a line takes the issue slot of a load. ``dot`` is what multiplies
    integers or bf16. ``widening``: instructions that make fp32 of a vector of weights. ``share``:
    what a vector of the tile takes of the issue time of a whole one.
    """
    rate, temporaries, words = (
        (1.0, 0, 1) if dot is None else (dot.rate, dot.temporaries, dot.words)
    )
    fmas = pixels * vectors / rate + widening * vectors
    loads = words * (vectors + pixels) + requests
    # What is added by itself waits for an addition only.
    latency = 1 if temporaries else cpu.fma_latency
    busy = share * max(fmas / cpu.fma_per_cycle, loads / cpu.load_per_cycle)
    bound = both_bound(busy, latency)
    contention = CROWDED_LOAD_CONTENTION if temporaries else LOAD_CONTENTION
    issue = bound + contention * loads + 2.0 * unit.spilled(pixels, vectors, 1 + temporaries)
    return overlapped(issue, l2_bytes / cpu.l2_bytes_per_cycle)


def both_bound(busy: float, latency: float) -> float:
    """Cycles of a step that units bound, and the latency of its additions.

    Where both take as long, an operation that comes late is never caught up with (Zen 3, 1x1
    layers: 8 accumulators 4.4 cycles a step, 12 accumulators 6.3).
    """
    power = 32
    return float((busy**power + latency**power) ** (1 / power))


def is_written_out(steps: int, pixels: int, vectors: int, adds_apart: bool = False) -> bool:
    """Whether LLVM unrolls a loop of so many steps of a register tile entirely.

    8 channels of 4 x 2 accumulators, not 16. A pixel is a load and two instructions that broadcast.
    ``adds_apart``: a product of words is an instruction, its addition another; there 8 steps of 9
    accumulators are written out, 12 steps of 4 x 2 are not (Zen 3, ``vpmaddwd``).
    """
    products = pixels * vectors
    step = 2 * (pixels + products) if adds_apart else 3 * pixels + products
    return steps * (step + vectors) <= FULL_LIMIT


def loop_cycles(steps: int, pixels: int, vectors: int, adds_apart: bool = False) -> float:
    """Cycles that loop control adds to a step of a register tile, in a loop of so many steps."""
    if is_written_out(steps, pixels, vectors, adds_apart):
        return UNROLLED_CYCLES / steps
    return ROLLED_CYCLES + LOOP_END_CYCLES / steps


def crowded_cycles(steps: int, pixels: int, vectors: int, unit: VectorUnit) -> float:
    """Cycles of spilled registers in a step, where a block of so many channels is written out."""
    crowded = unit.tile_registers(pixels, vectors) > unit.registers - SPARE_REGISTERS
    return CROWDED_CYCLES if crowded and is_written_out(steps, pixels, vectors) else 0.0


def shares_requests(pixels: int, vectors: int, unit: VectorUnit) -> bool:
    """Whether steps of a register tile may share requests: short ones, written out in a row."""
    return pixels * vectors < LONG_STEP and not unit.spills_unrolled(pixels, vectors)


def requests_of_step(
    pixels: int, vectors: int, weight_bytes: float, map_bytes: float, unit: VectorUnit
) -> float:
    """Prefetches of a step: of the next panel's lines, of the pixels that a 1x1 kernel reads next.

    Short steps share them. ``map_bytes`` is 0 where no pixels are asked for.
    """
    least = 1 / MAX_GROUP if shares_requests(pixels, vectors, unit) else 1.0
    of_pixels = max(least, pixels / unit.line) if map_bytes >= MIN_PREFETCHED_BYTES else 0.0
    return least * (weight_bytes >= MIN_PREFETCHED_BYTES) + of_pixels


def streamed(panel_bytes: float, row_bytes: float, cpu: Cpu) -> float:
    """Bytes that a step takes from L2: a row of the panel, or none while the panel stays in L1."""
    return row_bytes if panel_bytes > PANEL_SHARE * cpu.l1 else 0.0


def resident_in_l3(working_set: float, cpu: Cpu) -> bool:
    """Whether feature maps of so many bytes are still in L3 when the next layer reads them."""
    return working_set < L3_SHARE * cpu.l3


def streamed_bytes_per_cycle(working_set: float, cpu: Cpu) -> float:
    """What all cores together get of the level that holds so many bytes: L3, or memory."""
    if resident_in_l3(working_set, cpu):
        return cpu.l3_bytes_per_cycle * cpu.cores
    return min(cpu.dram_bytes_per_cycle * cpu.cores, cpu.dram_total_bytes_per_cycle)


def prefetched_bytes(weight_bytes: float) -> float:
    """The weights that templates with a marked reduction loop request in time: all or none.

    No network's weights stay in the caches from one run to the next.
    """
    return weight_bytes if weight_bytes >= MIN_PREFETCHED_BYTES else 0.0
