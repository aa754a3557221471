"""The direct template's space holds what NeoCPU, section 3.3.1, searched, as far as it fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import predict_seconds
from tvm_neocpu.topi.conv2d_direct.space import accepts, chunkings, out_blocks, space
from tvm_neocpu.topi.cost.ranking import best_per_layout

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
CORTEX = Cpu("cortex-a72", NEON, cores=4)
CONV = ConvWorkload(1, 64, 64, 64, 64, (3, 3), padding=(1, 1, 1, 1))
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))


def knob(conv: ConvWorkload, cpu: Cpu, name: str) -> set[int]:
    return {getattr(config, name) for config in space(conv, cpu)}


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
def test_all_factors_of_the_channels(cpu: Cpu) -> None:
    assert knob(CONV, cpu, "ic_bn") == {64, 32, 16, 8, 4, 2, 1}
    assert knob(CONV, cpu, "oc_bn") == {f for f in factors(64) if f <= 4 * cpu.lanes("float32")}


def test_blocks_in_and_out_are_free_of_each_other() -> None:
    pairs = {(config.ic_bn, config.oc_bn) for config in space(CONV, SKYLAKE)}
    assert len(pairs) == 49


def test_register_tiles_of_the_paper() -> None:
    assert {16, 8, 4, 2} <= knob(CONV, SKYLAKE, "reg_n")
    widest = {config.reg_n for config in space(CONV, SKYLAKE) if config.oc_bn == 16}
    # Beside 32 pixels there is no register left for the weights, on AVX-512 either.
    assert 32 not in widest
    assert {8, 4, 2} <= knob(CONV, HASWELL, "reg_n")


def test_width_of_a_tile_divides_the_output_or_hardly_overhangs() -> None:
    for side in (7, 13, 14, 28, 56, 57):
        conv = replace(CONV, height=side, width=side)
        for config in space(conv, SKYLAKE):
            across = -(-side // config.reg_n) * config.reg_n
            assert side % config.reg_n == 0 or across <= 1.15 * side


def test_the_kernel_is_unrolled_or_not() -> None:
    assert knob(CONV, SKYLAKE, "unroll_ker") == {True, False}
    assert knob(replace(CONV, kernel=(1, 1)), SKYLAKE, "unroll_ker") == {True}


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
def test_every_register_tile_fits(cpu: Cpu) -> None:
    unit = cpu.unit("float32")
    for config in space(CONV, cpu):
        assert unit.holds_tile(config.reg_m * config.reg_n, unit.registers_of(config.oc_bn))


def test_only_a_first_convolution_reads_plain_nchw() -> None:
    assert 0 in knob(STEM, SKYLAKE, "ic_bn")
    assert 0 not in knob(CONV, SKYLAKE, "ic_bn")
    assert 0 not in knob(replace(STEM, groups=3, out_channels=63), SKYLAKE, "ic_bn")


def test_blocks_hold_part_of_a_group_or_several_groups() -> None:
    grouped = replace(CONV, groups=4)
    assert knob(grouped, SKYLAKE, "ic_bn") == {64, 32, 16, 8, 4, 2, 1}
    assert knob(grouped, SKYLAKE, "oc_bn") == {64, 32, 16, 8, 4, 2, 1}
    assert all(config.oc_lanes == 16 for config in space(grouped, SKYLAKE) if config.oc_bn > 16)
    # Groups of 4 channels, half of a vector: WidenGroups or PadChannels leaves none.
    assert knob(replace(CONV, groups=16), SKYLAKE, "oc_bn") == {4, 2, 1}


def test_prime_channels_have_a_space() -> None:
    assert space(replace(CONV, in_channels=127, out_channels=131), HASWELL)


@pytest.mark.parametrize(
    ("channels", "blocks"),
    [
        (64, {(f, 0) for f in (1, 2, 4, 8, 16, 32, 64)}),  # vectors divide them: nothing to fill
        (13, {(1, 0), (13, 0), (13, 16)}),
        (3, {(1, 0), (3, 0), (3, 16)}),  # mostly filling, but there is no wider block
        (255, {(f, 0) for f in (1, 3, 5, 15, 17, 51)} | {(15, 16), (17, 32), (51, 64), (85, 96)}),
        (131, {(1, 0), (131, 144)}),  # a prime number wider than six vectors
    ],
)
def test_blocks_are_filled_up_to_whole_vectors(channels: int, blocks: set[tuple[int, int]]) -> None:
    found = out_blocks(replace(CONV, out_channels=channels), SKYLAKE)
    assert set(found) == {(f, lanes) for f, lanes in blocks}
    assert len(found) == len(set(found))


def test_odd_channels_run_in_whole_vectors() -> None:
    for channels in (13, 59, 126, 131, 255, 1000):
        conv = replace(CONV, out_channels=channels)
        best = min(space(conv, SKYLAKE), key=lambda c: predict_seconds(conv, c, SKYLAKE))
        assert best.tile_channels % 16 == 0
        assert best.oc_bn / best.tile_channels > 0.75


def test_a_chunk_of_channels_covers_all_rows() -> None:
    """7x7 has no rows to spare for two cores: a chunk is a block of channels, not a tile of it."""
    small = ConvWorkload(1, 512, 7, 7, 2048, (1, 1))
    best = min(space(small, SKYLAKE), key=lambda config: predict_seconds(small, config, SKYLAKE))
    assert best.parallel_oc
    assert best.oh_bn * best.reg_m >= 7
    assert (7, False) not in chunkings(small, 1, SKYLAKE)


def test_depthwise_is_left_to_its_own_template() -> None:
    assert not accepts(replace(CONV, groups=64), SKYLAKE)
    assert not accepts(replace(CONV, groups=64, out_channels=128), SKYLAKE)
    assert accepts(CONV, SKYLAKE)


def test_the_space_stays_searchable() -> None:
    """Nor does it explode on ResNet's widest layers: ranking it takes a fraction of a second."""
    for conv in (CONV, STEM, ConvWorkload(1, 2048, 7, 7, 512, (1, 1))):
        assert 100 <= len(space(conv, SKYLAKE)) <= 50_000


def test_every_layout_pair_of_whole_vectors_has_one_candidate() -> None:
    found = best_per_layout(CONV, SKYLAKE)
    layouts = [(candidate.reads.block, candidate.writes.block) for candidate in found]
    assert len(set(layouts)) == len(layouts)
    assert set(layouts) == {(x, y) for x in (16, 32, 64) for y in (16, 32, 64)}
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
