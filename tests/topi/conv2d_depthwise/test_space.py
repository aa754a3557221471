"""The depthwise template's space: blocks that pair, tiles that fit, chunks that stay in a cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import misfit, padded_bytes
from tvm_neocpu.topi.conv2d_depthwise.space import accepts, blocks, chunk_heights, space

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
CORTEX = Cpu("cortex-a72", NEON, cores=4)
CONV = ConvWorkload(1, 96, 56, 56, 96, (3, 3), padding=(1, 1, 1, 1), groups=96)


def test_only_depthwise_is_taken() -> None:
    assert accepts(CONV, SKYLAKE)
    assert accepts(replace(CONV, out_channels=192), SKYLAKE)
    assert not accepts(replace(CONV, groups=1), SKYLAKE)
    assert not accepts(replace(CONV, groups=48), SKYLAKE)


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
def test_blocks_are_factors_up_to_four_vectors(cpu: Cpu) -> None:
    widest = 4 * cpu.lanes("float32")
    pairs = blocks(CONV, cpu)
    assert {outputs for _, outputs in pairs} == {
        f for f in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96) if f <= widest
    }
    assert all(inputs == outputs for inputs, outputs in pairs)


def test_blocks_count_outputs_of_a_multiplier_and_lanes_of_the_type() -> None:
    tripled = blocks(replace(CONV, out_channels=288), SKYLAKE)
    assert all(outputs == 3 * inputs <= 64 for inputs, outputs in tripled)
    doubles = replace(CONV, types=uniform("float64"))
    assert max(outputs for _, outputs in blocks(doubles, SKYLAKE)) == 32
    # A channel of more outputs than four vectors is a block nevertheless.
    assert blocks(ConvWorkload(1, 2, 5, 5, 160, (3, 3), groups=2), SKYLAKE) == ((1, 80),)


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
def test_tiles_fit_and_so_does_every_config(cpu: Cpu) -> None:
    unit = cpu.unit("float32")
    for config in space(CONV, cpu):
        pixels, vectors = config.reg_m * config.reg_n, unit.registers_of(config.tile_channels)
        assert pixels == 1 or pixels * vectors + vectors <= unit.registers
        assert misfit(CONV, config) is None


def test_blocks_of_several_vectors_are_also_computed_vector_by_vector() -> None:
    """The widest tile of 24 channels has 4 pixels in 16 registers; of 8 of them it has 14."""
    found = {(c.oc_bn, c.reg_c) for c in space(CONV, HASWELL)}
    assert {(24, 0), (24, 8), (8, 0), (12, 0)} <= found
    assert not found & {(8, 8), (12, 8), (12, 4)}
    widest = {c.reg_c: 0 for c in space(CONV, HASWELL)}
    for config in space(CONV, HASWELL):
        if config.oc_bn == 24:
            widest[config.reg_c] = max(widest[config.reg_c], config.reg_m * config.reg_n)
    assert widest == {0: 4, 8: 14}


def test_what_a_chunk_pads_stays_in_a_cache() -> None:
    """Two rows of 56 fit into half of L1; 28 rows of 112 into a quarter of L2, none into L1."""
    assert chunk_heights(CONV, 1, 16, SKYLAKE) == (0, 2)
    assert padded_bytes(CONV, 2, 16) <= SKYLAKE.l1 / 2 < padded_bytes(CONV, 4, 16)
    large = replace(CONV, height=112, width=112)
    assert chunk_heights(large, 1, 16, SKYLAKE) == (0, 28)
    assert padded_bytes(large, 28, 16) <= SKYLAKE.l2 / 4 < padded_bytes(large, 56, 16)


def test_few_blocks_are_shared_out_by_rows() -> None:
    """Three blocks of channels leave one of two cores idle."""
    small = replace(CONV, in_channels=48, out_channels=48, groups=48, height=8, width=8)
    assert chunk_heights(small, 1, 16, SKYLAKE) == (0, 2, 4)
    assert chunk_heights(small, 1, 24, SKYLAKE) == (0,)
