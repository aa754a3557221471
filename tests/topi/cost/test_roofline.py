"""The cost model's terms: what costs more must be said to cost more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.cost.roofline import (
    CHUNK_CYCLES,
    MIN_PREFETCHED_BYTES,
    PANEL_SHARE,
    Traffic,
    Work,
    is_written_out,
    loop_cycles,
    overlapped,
    prefetched_bytes,
    resident_in_l3,
    seconds,
    streamed,
    tile_step_cycles,
)

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=4)
UNIT = SKYLAKE.unit("float32")
NOTHING = Traffic(from_l2=0, from_l3=0, from_dram=0)
COMPUTE = Work(cycles=1e6, chunks=64, traffic=NOTHING)


def moving(**traffic: float) -> Work:
    """The same computation, bytes beside it."""
    return replace(COMPUTE, traffic=replace(NOTHING, **traffic))


def test_compute_alone_is_shared_by_the_cores() -> None:
    expected = (1e6 + 64 * CHUNK_CYCLES) / 4 / 2.5e9 + SKYLAKE.fork_join
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
    moved = moving(**{level: 1e8})
    assert seconds(moved, SKYLAKE) > seconds(COMPUTE, SKYLAKE)


def test_levels_are_ordered() -> None:
    times = [
        seconds(moving(**{level: 1e8}), SKYLAKE) for level in ("from_l2", "from_l3", "from_dram")
    ]
    assert times == sorted(times)


def test_the_longer_of_compute_and_memory_hides_most_of_the_other() -> None:
    both = seconds(moving(from_l2=32e6), SKYLAKE) - SKYLAKE.fork_join
    alone = seconds(COMPUTE, SKYLAKE) - SKYLAKE.fork_join
    assert alone < both < 1.5 * alone


def test_a_tile_too_small_waits_for_the_latency_of_its_additions() -> None:
    assert tile_step_cycles(1, 1, SKYLAKE, UNIT) >= SKYLAKE.fma_latency
    per_pixel = [tile_step_cycles(pixels, 1, SKYLAKE, UNIT) / pixels for pixels in (1, 4, 14)]
    assert per_pixel == sorted(per_pixel, reverse=True)


def test_a_tile_too_large_spills() -> None:
    fits, spills = (tile_step_cycles(pixels, 2, SKYLAKE, UNIT) for pixels in (14, 28))
    assert spills > 3 * fits


def test_every_register_that_a_tile_lacks_costs_a_store_and_a_load() -> None:
    narrow = replace(UNIT, registers=29)
    lacking = tile_step_cycles(14, 2, SKYLAKE, narrow) - tile_step_cycles(14, 2, SKYLAKE, UNIT)
    assert lacking == pytest.approx(2.0 * (UNIT.tile_registers(14, 2) - 29))


def test_a_panel_is_streamed_once_it_outgrows_l1() -> None:
    small, large = PANEL_SHARE * SKYLAKE.l1, PANEL_SHARE * SKYLAKE.l1 + 1
    assert streamed(small, 128.0, SKYLAKE) == 0
    assert streamed(large, 128.0, SKYLAKE) == 128
    step = tile_step_cycles(14, 2, SKYLAKE, UNIT)
    assert step < tile_step_cycles(14, 2, SKYLAKE, UNIT, 128.0) < step + 128 / 32


def test_bytes_asked_for_in_time_cost_bandwidth_only() -> None:
    asked, waited = (
        seconds(moving(prefetched=1e6), SKYLAKE),
        seconds(moving(from_dram=1e6), SKYLAKE),
    )
    assert seconds(COMPUTE, SKYLAKE) < asked < waited
    assert prefetched_bytes(MIN_PREFETCHED_BYTES) == MIN_PREFETCHED_BYTES
    assert prefetched_bytes(MIN_PREFETCHED_BYTES - 1) == 0


def test_two_things_at_once_take_the_longer_ones_time() -> None:
    assert overlapped(100, 0) == pytest.approx(100)
    assert overlapped(100, 10) == pytest.approx(100, rel=1e-3)
    assert overlapped(100, 100) == pytest.approx(126, rel=1e-3)


def test_half_of_l3_keeps_feature_maps() -> None:
    assert resident_in_l3(SKYLAKE.l3 / 2 - 1, SKYLAKE)
    assert not resident_in_l3(SKYLAKE.l3 / 2, SKYLAKE)


def test_llvm_writes_out_short_loops_over_small_tiles() -> None:
    """As the assembly of a Zen 3 shows: 8 channels of 4 x 2 accumulators, not 16, not 14 x 1."""
    assert is_written_out(8, 4, 2)
    assert not is_written_out(16, 4, 2)
    assert not is_written_out(8, 14, 1)
    # Products whose additions are instructions of their own.
    assert is_written_out(8, 9, 1, adds_apart=True)
    assert is_written_out(8, 4, 2, adds_apart=True)
    assert not is_written_out(12, 4, 2, adds_apart=True)
    assert loop_cycles(8, 4, 2) < loop_cycles(64, 4, 2) < loop_cycles(16, 4, 2)
