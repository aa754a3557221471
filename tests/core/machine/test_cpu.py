"""The CPU description, and what Linux is read for."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import (
    AVX2,
    AVX512,
    NEON,
    SSE,
    Cpu,
    Isa,
    VectorUnit,
    isa_of,
)


def test_what_follows_from_the_isa() -> None:
    skylake = Cpu("skylake-avx512", AVX512, cores=1, ghz=2.5)
    lanes = [Cpu("", isa, 1).lanes("float32") for isa in (AVX512, AVX2, NEON, SSE)]
    assert lanes == [16, 8, 4, 4]
    assert skylake.peak_gflops("float32") == 160
    assert skylake.with_cores(8).cores == 8


@pytest.mark.parametrize(
    ("dtype", "lanes", "line"),
    [("float64", 8, 8), ("float32", 16, 16), ("bfloat16", 32, 32), ("uint8", 64, 64)],
)
def test_a_type_says_how_many_elements_registers_and_lines_hold(
    dtype: str, lanes: int, line: int
) -> None:
    cpu = Cpu("skylake-avx512", AVX512, cores=1, fma_per_cycle=2, ghz=2.0)
    unit = cpu.unit(dtype)
    assert (unit.lanes, unit.registers, unit.line) == (lanes, 32, line)
    assert cpu.multiply_adds_per_cycle(dtype) == 2 * lanes
    assert cpu.peak_gflops(dtype) == 2 * 2 * lanes * 2.0


def test_a_register_holds_less_than_a_cache_line_where_it_is_shorter() -> None:
    unit = Cpu("", AVX2, 1).unit("float32")
    assert (unit.lanes, unit.line) == (8, 16)


@pytest.mark.parametrize(
    ("block", "registers"), [(1, 1), (4, 1), (12, 3), (16, 1), (24, 3), (48, 3), (13, 13), (64, 4)]
)
def test_a_block_takes_vectors_of_the_largest_power_of_two_that_divides_it(
    block: int, registers: int
) -> None:
    assert VectorUnit(16, 32, 16).registers_of(block) == registers


def test_a_tile_has_accumulators_weights_and_streamed_inputs() -> None:
    unit = VectorUnit(16, 32, 16)
    assert unit.tile_registers(14, 2) == 28 + 2 + 1
    assert unit.holds_tile(14, 2)
    assert not unit.holds_tile(15, 2)
    assert unit.spilled(15, 2) == 1
    assert unit.holds_tile(15, 2, streamed=0)


@pytest.mark.parametrize("isa", [AVX512, AVX2, NEON, SSE])
def test_the_widest_tile_of_one_vector_just_fits(isa: Isa) -> None:
    unit = Cpu("", isa, 1).unit("float32")
    assert unit.holds_tile(unit.max_pixels, 1)
    assert not unit.holds_tile(unit.max_pixels + 1, 1)


@pytest.mark.parametrize(
    ("features", "isa"),
    [
        ({"avx512f", "avx2", "fma"}, AVX512),
        ({"avx2", "fma"}, AVX2),
        ({"avx2"}, SSE),
        ({"neon", "sve"}, NEON),
        (set(), SSE),
    ],
)
def test_widest_isa_of_the_features(features: set[str], isa: Isa) -> None:
    assert isa_of(frozenset(features)) is isa


def test_vectors_of_half_the_width_may_issue_in_half_the_time() -> None:
    """Zen 4: 512 bits take both halves of a unit."""
    halved = Cpu("test", AVX512, 1, narrow=2).unit("float32")
    assert halved.full_rate_lanes == 8
    assert [halved.issue_share(block) for block in (48, 16, 24, 8, 12)] == [1, 1, 0.5, 0.5, 0.5]
    whole = Cpu("test", AVX512, 1).unit("float32")
    assert whole.full_rate_lanes == 16
    assert whole.issue_share(24) == 1
