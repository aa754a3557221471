"""What the Winograd template's cost model must rank rightly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, KIB, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import predict_seconds as direct_seconds
from tvm_neocpu.topi.conv2d_direct.space import space as direct_space
from tvm_neocpu.topi.conv2d_winograd.cost import predict_seconds, pricing
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.space import space

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=1)
CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))
CONFIG = WinogradConfig(16, 32, 4, 14, th_bn=2)


def test_fewer_products_are_predicted_to_be_faster() -> None:
    best = min(predict_seconds(CONV, config, SKYLAKE) for config in space(CONV, SKYLAKE))
    direct = min(
        direct_seconds(CONV, config, SKYLAKE) for config in direct_space(CONV, SKYLAKE)[::7]
    )
    assert 1.3 < direct / best < 4


def test_a_grid_that_is_rounded_up_is_charged() -> None:
    """Fourteen tiles of four in register tiles of nine: eighteen."""
    exact, rounded = (
        predict_seconds(CONV, replace(CONFIG, reg_n=reg_n), SKYLAKE) for reg_n in (7, 9)
    )
    assert rounded > 1.1 * exact


def test_a_narrower_last_tile_is_charged_for_what_it_multiplies() -> None:
    """14 columns take 22 of 24 products of F(4, 3), squared; transforms are those of 16."""
    fourteen, sixteen = (
        replace(CONV, in_channels=512, out_channels=512, height=side, width=side)
        for side in (14, 16)
    )
    config = WinogradConfig(32, 32, 4, 4, 2, th_bn=4, parallel_oc=True)
    # Caches that hold everything: what is left is instructions.
    roomy = replace(SKYLAKE, l2=10**9, l3=10**10, l2_bytes_per_cycle=1e9, l3_bytes_per_cycle=1e9)
    roomy = replace(roomy, dram_bytes_per_cycle=1e9, dram_total_bytes_per_cycle=1e9)
    narrow, whole = (predict_seconds(conv, config, roomy) for conv in (fourteen, sixteen))
    assert 0.8 < narrow / whole < 0.95


@pytest.mark.parametrize("parallel_oc", [False, True])
def test_weights_that_outgrow_l3_are_read_for_each_image(parallel_oc: bool) -> None:
    """38 MB of 512 x 512 weights of F(4x4): eight images take eight times as long as one."""
    one = ConvWorkload(1, 512, 7, 7, 512, (3, 3), padding=(1, 1, 1, 1))
    eight = replace(one, batch=8)
    apart = WinogradConfig(32, 32, 4, 4, FLAT, 2, parallel_oc)
    alone, each = (predict_seconds(conv, apart, SKYLAKE) for conv in (one, eight))
    together = predict_seconds(eight, replace(apart, reg_n=8, th_bn=16), SKYLAKE)
    assert each > 7 * alone
    assert each > 2 * together


def test_a_stem_pays_for_the_vectors_that_it_transforms() -> None:
    """Three of four channels in a chunk, one of sixteen in a pass: the pass was charged for three.

    Both are alike otherwise where a chunk covers all rows and one core does all of it.
    """
    rows = WinogradConfig(0, 64, 4, 7, th_bn=28)
    passes = replace(rows, parallel_oc=True)
    # Caches that hold everything: what is left is instructions.
    roomy = replace(SKYLAKE, l2=10**9, l3=10**10)
    assert predict_seconds(STEM, passes, roomy) < 0.9 * predict_seconds(STEM, rows, roomy)


def test_workspace_beyond_l2_is_charged() -> None:
    small = replace(SKYLAKE, l2=256 * KIB)
    assert predict_seconds(CONV, CONFIG, small) > 1.05 * predict_seconds(CONV, CONFIG, SKYLAKE)


def test_prices_know_which_chunks_see_the_last_row_of_tiles() -> None:
    """Configs that differ in the chunk only: one of all rows takes fewer products."""
    conv = replace(CONV, height=14, width=14)
    whole = WinogradConfig(16, 16, 4, 4, th_bn=4)
    price = pricing(conv, SKYLAKE)
    for config in (whole, replace(whole, th_bn=1), whole):
        assert price(config) == pytest.approx(predict_seconds(conv, config, SKYLAKE))


def test_cores_wait_for_what_others_have_transformed() -> None:
    """Twice the transforms take less than two more forks and half of the tiles from far."""
    conv = ConvWorkload(1, 256, 14, 14, 256, (3, 3), padding=(1, 1, 1, 1))
    cpu = replace(SKYLAKE, cores=2)
    together = WinogradConfig(32, 32, 4, 4, 2, th_bn=4, parallel_oc=True)
    by_core = replace(together, parallel_oc=False, oc_chunks=2)
    assert predict_seconds(conv, by_core, cpu) < predict_seconds(conv, together, cpu)
    instructions = replace(cpu, l2=10**9, l3=10**10, l2_bytes_per_cycle=1e9, line=10**9)
    instructions = replace(instructions, l3_bytes_per_cycle=1e9, fork_join=0.0)
    instructions = replace(instructions, dram_bytes_per_cycle=1e9, dram_total_bytes_per_cycle=1e9)
    twice = predict_seconds(conv, by_core, instructions)
    assert twice > predict_seconds(conv, together, instructions)


def test_prices_know_which_chunks_transform() -> None:
    conv = ConvWorkload(1, 32, 14, 14, 32, (3, 3), padding=(1, 1, 1, 1))
    cpu = replace(SKYLAKE, cores=2)
    whole = WinogradConfig(16, 16, 4, 4, th_bn=4)
    price = pricing(conv, cpu)
    for config in (whole, replace(whole, oc_chunks=2), replace(whole, parallel_oc=True), whole):
        assert price(config) == pytest.approx(predict_seconds(conv, config, cpu))


def test_chunks_of_groups_have_prices_of_their_own() -> None:
    """A stride has no tails; the rows that chunks share are copied all the same."""
    cpu = SKYLAKE.with_cores(2)
    conv = ConvWorkload(1, 24, 18, 11, 48, (3, 3), (1, 2), (1, 1, 1, 1), groups=3)
    price, low = pricing(conv, cpu), WinogradConfig(8, 16, 2, 3, 2, th_bn=2)
    for config in (low, replace(low, th_bn=10)):
        assert price(config) == predict_seconds(conv, config, cpu)
