"""The measuring behind `python -m tvm_neocpu.calibrate`: kernels run, `Cpu`'s figures come out.

It measures the clock, FMAs and loads per cycle, the latency of an FMA, bytes per cycle from each
cache level and from memory, the usable share of the L3, and what a parallel region costs. Other
processes only ever make a probe slower, so that its best repeats count. `commands/calibrate.py` is
the command line, `targets/calibration_file.py` the file; `measure.py` beside this module times the
kernels of a network instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from tvm_neocpu.contrib.kernels.ceilings import (
    ChainKernel,
    ClockKernel,
    ForkKernel,
    PeakKernel,
)
from tvm_neocpu.contrib.kernels.read_kernels import ColdReadKernel, ReadKernel
from tvm_neocpu.core.machine.cpu import MIB, Cpu
from tvm_neocpu.targets import CompileTarget

# What the peak kernel multiplies and what the read kernels sum.
DTYPE = "float32"
# At least so many rounds; more, for so many seconds, while a probe is not steady: while its third
# best figure is below this share of its second best.
ROUNDS, MEASURE_SECONDS, STEADY = 9, 6.0, 0.95
# Half of the rounds reach this share of the second best figure, unless something shares the core.
ALONE = 0.9
# By how much what a core issues in a cycle may differ from a whole number.
NEARLY_WHOLE = 0.1
# Bytes that one run reads from a cache: long against the call and the timer's ticks, short against
# the time for which a busy machine leaves a process its core.
RUN_BYTES = 16 * MIB
# The L3 holds a buffer that reads at this share of the smallest L3 buffer's rate, or faster.
STILL_L3 = 0.7
# Buffer sizes in eighths of the L3: a virtual machine shares its L3 with others.
EIGHTHS = (2, 3, 4, 5, 6, 7, 8)
# Nothing that wakes a thread takes less, in seconds.
MIN_FORK = 1e-8
# Sizes, in multiples of the L2 and of the L3, at which a buffer gains next to nothing from it.
BEYOND_L2, BEYOND_L3 = 4, 8

PEAK, L2, DRAM, DRAM_ALL = "peak", "l2", "dram", "dram of all cores"
CLOCK, CHAIN, L1, FORK, CALL = "clock", "chain", "l1", "parallel calls", "calls"
# The probes of one size each of L3 begin so.
L3 = "l3"
# What memory gives, by the probe that it rests on.
_MEMORY = {
    "l2_bytes_per_cycle": L2,
    "dram_bytes_per_cycle": DRAM,
    "dram_total_bytes_per_cycle": DRAM_ALL,
}
# What a core issues in a cycle, by the probe that it rests on beside the clock's.
_ISSUE = {"fma_per_cycle": PEAK, "load_per_cycle": L1, "fma_latency": CHAIN}
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
    """Probes by name: all of them rates, the more the better.

    One core's FMA peak in GFLOP/s; its clock in Hz; FMAs of a chain, calls with and without a
    parallel loop, per second; all others in bytes per second.
    """
    one = replace(target, cpu=target.cpu.with_cores(1))

    def reader(size: int) -> Callable[[], float]:
        passes = max(1, min(RUN_BYTES, buffers.dram) // size)
        return ReadKernel(one, DTYPE, size, passes).bytes_per_second

    found = {PEAK: PeakKernel(one, DTYPE).gflops, CLOCK: ClockKernel(one).hertz}
    found |= {CHAIN: ChainKernel(one, DTYPE).steps_per_second, L1: reader(target.cpu.l1 // 2)}
    found[L2] = reader(buffers.l2)
    found.update((_l3(size), reader(size)) for size in buffers.l3)
    found[DRAM] = ColdReadKernel(one, DTYPE, buffers.dram).bytes_per_second
    if target.cpu.cores > 1:
        found[DRAM_ALL] = ColdReadKernel(target, DTYPE, buffers.dram).bytes_per_second
        for name, fork in ((FORK, True), (CALL, False)):
            found[name] = ForkKernel(target, fork).calls_per_second
    return found


def measure(probes: Probes, rounds: int = ROUNDS) -> list[dict[str, float]]:
    """Every probe's figure in each round; the clock drifts, so a round holds all of them."""
    found: list[dict[str, float]] = []
    deadline = time.monotonic() + MEASURE_SECONDS
    while len(found) < rounds or (unsteady(found) and time.monotonic() < deadline):
        found.append({name: probe() for name, probe in probes.items()})
    return found


def unsteady(rounds: list[dict[str, float]]) -> list[str]:
    """The probes that other processes disturbed in nearly every round."""
    if len(rounds) < 3:
        return []
    ranked = {name: sorted((found[name] for found in rounds), reverse=True) for name in rounds[0]}
    return [name for name, values in ranked.items() if values[2] < STEADY * values[1]]


def believed(measured: Mapping[str, float], disturbed: Collection[str]) -> dict[str, float]:
    """The parameters but for those of memory that rest on a disturbed probe.

    A read from 32 MiB that others disturbed looked like memory, so that L3 seemed to hold 8.
    """
    from_l3 = {probe for probe in disturbed if probe.startswith(f"{L3} ")}
    doubted = {name for name, probe in _MEMORY.items() if probe in disturbed}
    if from_l3:
        doubted |= {"l3", "l3_bytes_per_cycle"}
    return {name: value for name, value in measured.items() if name not in doubted}


def parameters(rounds: list[dict[str, float]], buffers: Buffers, cpu: Cpu) -> dict[str, float]:
    """Fields of :class:`Cpu`; bytes per cycle are of the fastest clock.

    Without a probe of the clock it is the measured peak over the family's FMAs per cycle. If the
    family is wrong then, clock and bytes per cycle are wrong by the same factor, and predicted
    times stay right.

    What a core issues in a cycle is left out where its probe was disturbed, or is no whole number:
    a neighbour's thread on the same core took half of the FMAs, steadily (a Zen 3 of a virtual
    machine), and 1.2 FMAs a cycle of 2 are no unit that this CPU has.
    """

    def reached(probe: str) -> float:
        return _second_best([found[probe] for found in rounds])

    disturbed = {*unsteady(rounds), *_shared(rounds)}
    rates = _rates(reached, cpu) if CLOCK in rounds[0] else {}
    rates = {name: n for name, n in rates.items() if not disturbed & {CLOCK, _ISSUE[name]}}
    known = replace(cpu, **rates)  # type: ignore[arg-type]
    hertz = reached(PEAK) / (2 * known.multiply_adds_per_cycle(DTYPE)) * 1e9

    def per_cycle(probe: str) -> float:
        return round(reached(probe) / hertz, 2)

    measured: dict[str, float] = {"ghz": round(hertz / 1e9, 3), "l2_bytes_per_cycle": per_cycle(L2)}
    if buffers.l3:
        from_l3 = [per_cycle(_l3(size)) for size in buffers.l3]
        measured["l3_bytes_per_cycle"] = from_l3[0]
        measured["l3"] = _effective(buffers.l3, from_l3)
    measured["dram_bytes_per_cycle"] = per_cycle(DRAM)
    if DRAM_ALL in rounds[0]:
        measured["dram_total_bytes_per_cycle"] = per_cycle(DRAM_ALL)
    if FORK in rounds[0]:
        measured["fork_join"] = max(MIN_FORK, round(1 / reached(FORK) - 1 / reached(CALL), 8))
    return measured | rates


def not_issued(rounds: list[dict[str, float]], measured: Mapping[str, float]) -> list[str]:
    """What a core issues in a cycle, as far as it was measured in vain."""
    return [name for name in _ISSUE if CLOCK in rounds[0] and name not in measured]


def _shared(rounds: list[dict[str, float]]) -> list[str]:
    """The probes that reached in few rounds what they can."""
    figures = {name: [found[name] for found in rounds] for name in rounds[0]}
    return [name for name, each in figures.items() if median(each) < ALONE * _second_best(each)]


def _second_best(figures: Sequence[float]) -> float:
    """Nothing is faster than it can be, but a timer may err once."""
    return sorted(figures)[-2:][0]


def _rates(reached: Callable[[str], float], cpu: Cpu) -> dict[str, int]:
    """What a core issues in a cycle, and the cycles of an FMA: whole numbers on every CPU."""
    hertz, vector_bytes = reached(CLOCK), cpu.isa.vector_bits / 8
    fmas = reached(PEAK) * 1e9 / (2 * cpu.lanes(DTYPE))
    found = {
        "fma_per_cycle": fmas / hertz,
        "load_per_cycle": reached(L1) / vector_bytes / hertz,
        "fma_latency": hertz / reached(CHAIN),
    }
    return {
        name: round(rate)
        for name, rate in found.items()
        if rate > 0.5 and abs(rate - round(rate)) <= NEARLY_WHOLE
    }


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
    return f"{L3} {size}"
