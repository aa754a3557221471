"""The cost model's terms: what costs more must be said to cost more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.topi.cost.roofline import (
    CHUNK_CYCLES,
    FORK_JOIN,
    Work,
    seconds,
    tile_step_cycles,
    vector_registers,
)

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=4)
COMPUTE = Work(cycles=1e6, chunks=64, from_l2=0, from_l3=0, from_dram=0)


@pytest.mark.parametrize(
    ("block", "isa", "registers"),
    [
        (16, AVX512, 1),
        (48, AVX512, 3),
        (12, AVX512, 3),
        (13, AVX512, 13),
        (8, AVX2, 1),
        (8, NEON, 2),
    ],
)
def test_vector_registers(block: int, isa: object, registers: int) -> None:
    assert vector_registers(block, replace(SKYLAKE, isa=isa)) == registers


def test_compute_alone_is_shared_by_the_cores() -> None:
    expected = (1e6 + 64 * CHUNK_CYCLES) / 4 / 2.5e9 + FORK_JOIN
    assert seconds(COMPUTE, SKYLAKE) == pytest.approx(expected)


def test_every_chunk_costs_a_call() -> None:
    assert seconds(replace(COMPUTE, chunks=640), SKYLAKE) > 1.02 * seconds(COMPUTE, SKYLAKE)


def test_chunks_that_do_not_divide_leave_cores_idle() -> None:
    """Five chunks on four cores take two rounds, as eight would."""
    five = seconds(replace(COMPUTE, cycles=5e6, chunks=5), SKYLAKE)
    eight = seconds(replace(COMPUTE, cycles=8e6, chunks=8), SKYLAKE)
    assert five == pytest.approx(eight)
    assert seconds(replace(COMPUTE, chunks=1), SKYLAKE) > 3 * seconds(COMPUTE, SKYLAKE)


@pytest.mark.parametrize("level", ["from_l2", "from_l3", "from_dram"])
def test_traffic_costs_the_more_the_farther_it_comes(level: str) -> None:
    moved = replace(COMPUTE, **{level: 1e8})
    assert seconds(moved, SKYLAKE) > seconds(COMPUTE, SKYLAKE)


def test_levels_are_ordered() -> None:
    times = [
        seconds(replace(COMPUTE, **{level: 1e8}), SKYLAKE)
        for level in ("from_l2", "from_l3", "from_dram")
    ]
    assert times == sorted(times)


def test_the_longer_of_compute_and_memory_hides_most_of_the_other() -> None:
    both = seconds(replace(COMPUTE, from_l2=32e6), SKYLAKE) - FORK_JOIN
    alone = seconds(COMPUTE, SKYLAKE) - FORK_JOIN
    assert alone < both < 1.5 * alone


def test_a_tile_too_small_waits_for_the_latency_of_its_additions() -> None:
    assert tile_step_cycles(1, 1, SKYLAKE) >= SKYLAKE.fma_latency
    per_pixel = [tile_step_cycles(pixels, 1, SKYLAKE) / pixels for pixels in (1, 4, 14)]
    assert per_pixel == sorted(per_pixel, reverse=True)


def test_a_tile_too_large_spills() -> None:
    fits, spills = tile_step_cycles(14, 2, SKYLAKE), tile_step_cycles(28, 2, SKYLAKE)
    assert spills > 3 * fits
