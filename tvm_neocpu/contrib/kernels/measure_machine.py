"""The measuring behind `python -m tvm_neocpu.calibrate`: kernels run, `Cpu`'s figures come out.

It measures the clock, bytes per cycle from each cache level and from memory, and the usable share
of the L3. `commands/calibrate.py` is the command line, `targets/calibration_file.py` the file;
`measure.py` beside this module times the kernels of a network instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from tvm_neocpu.contrib.kernels.ceilings import PeakKernel, ReadKernel
from tvm_neocpu.core.cpu import MIB, Cpu
from tvm_neocpu.targets import CompileTarget

# What the peak kernel multiplies and what the read kernels sum.
DTYPE = "float32"
ROUNDS = 9
# Bytes that one run reads: it takes milliseconds, long against the call and the timer's ticks.
RUN_BYTES = 64 * MIB
# The L3 holds a buffer that reads at this share of the smallest L3 buffer's rate, or faster.
STILL_L3 = 0.7
# Buffer sizes in eighths of the L3: a virtual machine shares its L3 with others.
EIGHTHS = (2, 3, 4, 5, 6, 7, 8)
# Sizes, in multiples of the L2 and of the L3, at which a buffer gains next to nothing from it.
BEYOND_L2, BEYOND_L3 = 4, 8

PEAK, L2, DRAM, DRAM_ALL = "peak", "l2", "dram", "dram of all cores"
Probes = Mapping[str, Callable[[], float]]


@dataclass(frozen=True)
class Buffers:
    """Buffer sizes in bytes for each level; ``l3`` ascends, and is empty without an L3."""

    l2: int
    l3: tuple[int, ...]
    dram: int


def buffers_of(cpu: Cpu) -> Buffers:
    """Buffers for a CPU whose cache sizes are those that the operating system reports."""
    smallest = max(EIGHTHS[0] * cpu.l3 // 8, BEYOND_L2 * cpu.l2)
    sizes = {smallest, *(n * cpu.l3 // 8 for n in EIGHTHS)}
    fitting = tuple(sorted(size for size in sizes if smallest <= size <= cpu.l3))
    # Timing cannot tell an L3 from an L2 of nearly its size.
    has_l3 = smallest <= cpu.l3 // 2
    return Buffers(cpu.l2 // 2, fitting if has_l3 else (), BEYOND_L3 * max(cpu.l3, 8 * MIB))


def probes(target: CompileTarget, buffers: Buffers) -> dict[str, Callable[[], float]]:
    """Probes by name: one core's FMA peak in GFLOP/s, every other in bytes per second."""
    one = replace(target, cpu=target.cpu.with_cores(1))

    def reader(size: int, on: CompileTarget = one) -> Callable[[], float]:
        passes = max(1, min(RUN_BYTES, buffers.dram) // size)
        return ReadKernel(on, DTYPE, size, passes).bytes_per_second

    found = {PEAK: PeakKernel(one, DTYPE).gflops, L2: reader(buffers.l2)}
    found.update((_l3(size), reader(size)) for size in buffers.l3)
    found[DRAM] = reader(buffers.dram)
    if target.cpu.cores > 1:
        found[DRAM_ALL] = reader(buffers.dram, target)
    return found


def measure(probes: Probes, rounds: int = ROUNDS) -> list[dict[str, float]]:
    """Every probe's figure in each round; the clock drifts, so a round holds all of them."""
    return [{name: probe() for name, probe in probes.items()} for _ in range(rounds)]


def parameters(rounds: list[dict[str, float]], buffers: Buffers, cpu: Cpu) -> dict[str, float]:
    """Fields of :class:`Cpu`: medians over the rounds, bytes per cycle of each round's own clock.

    The clock is the measured peak over the family's FMAs per cycle. If the family is wrong, clock
    and bytes per cycle are wrong by the same factor, and predicted times stay right.
    """
    clocks = [found[PEAK] / (2 * cpu.multiply_adds_per_cycle(DTYPE)) for found in rounds]

    def per_cycle(probe: str) -> float:
        ratios = (found[probe] / (clock * 1e9) for found, clock in zip(rounds, clocks, strict=True))
        return round(median(ratios), 2)

    measured: dict[str, float] = {
        "ghz": round(median(clocks), 3),
        "l2_bytes_per_cycle": per_cycle(L2),
    }
    if buffers.l3:
        rates = [per_cycle(_l3(size)) for size in buffers.l3]
        measured["l3_bytes_per_cycle"] = rates[0]
        measured["l3"] = _effective(buffers.l3, rates)
    measured["dram_bytes_per_cycle"] = per_cycle(DRAM)
    if DRAM_ALL in rounds[0]:
        measured["dram_total_bytes_per_cycle"] = per_cycle(DRAM_ALL)
    return measured


def _effective(sizes: tuple[int, ...], rates: list[float]) -> int:
    """The largest size before the first one that reads much slower than the smallest.

    Sizes 2, 3, 4 MiB that read 16, 12, 6 bytes per cycle -> 3 MiB.
    """
    held = sizes[0]
    for size, rate in zip(sizes, rates, strict=True):
        if rate < STILL_L3 * rates[0]:
            break
        held = size
    return held


def _l3(size: int) -> str:
    return f"l3 {size}"
