"""What the depthwise template's cost model must rank rightly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.targets.families import with_family
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.cost import predict_seconds
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_depthwise.space import space

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
CONV = ConvWorkload(1, 96, 28, 28, 96, (3, 3), padding=(1, 1, 1, 1), groups=96)
CONFIG = DepthwiseConfig(ic_bn=16, oc_bn=16, reg_n=7, reg_m=2)


def price(conv: ConvWorkload, config: DepthwiseConfig) -> float:
    return predict_seconds(conv, config, SKYLAKE)


def test_the_favourite_fills_vectors_and_unrolls_the_kernel() -> None:
    best = min(space(CONV, SKYLAKE), key=lambda config: price(CONV, config))
    assert best.oc_bn % 16 == 0
    assert best.unroll_ker
    assert best.reg_m * best.reg_n >= 4


def test_with_16_registers_eight_accumulators_fit_and_twelve_do_not() -> None:
    """Zen 3, microseconds: 38.0, 42.1, 61.0, 77.7."""
    conv = ConvWorkload(1, 192, 28, 28, 192, (3, 3), padding=(1, 1, 1, 1), groups=192)
    zen = with_family(Cpu("znver3", AVX2, cores=1))
    tiles = [(8, 7), (16, 4), (8, 14), (24, 4)]
    prices = [predict_seconds(conv, DepthwiseConfig(c, c, n), zen) for c, n in tiles]
    assert prices[0] < prices[1] < min(prices[2:])
    assert min(prices[2:]) > 1.4 * prices[0]


def test_beside_five_taps_a_row_seven_accumulators_fit_in_16_registers() -> None:
    """Zen 3, microseconds: 197, 273, 297, 280; of 3x3 tiles 7 x 1 and 8 x 1 take as long."""
    conv = ConvWorkload(1, 96, 56, 56, 96, (5, 5), padding=(2, 2, 2, 2), groups=96)
    zen = with_family(Cpu("znver3", AVX2, cores=1))
    tiles = [(7, 1), (8, 1), (4, 2), (2, 4)]
    configs = [DepthwiseConfig(24, 24, n, True, m, 0, 8) for n, m in tiles]
    seven, *eight = (predict_seconds(conv, config, zen) for config in configs)
    assert 1.2 * seven < min(eight)
    smaller = replace(conv, kernel=(3, 3), padding=(1, 1, 1, 1))
    seven, *eight = (predict_seconds(smaller, config, zen) for config in configs)
    assert max(eight) < 1.1 * seven


@pytest.mark.parametrize(("side", "kernel", "stride"), [(28, 3, 1), (56, 5, 2), (28, 7, 1)])
def test_seven_pixels_fit_where_a_vector_takes_both_halves_of_a_unit(
    side: int, kernel: int, stride: int
) -> None:
    """Zen 4, microseconds with tiles of 7, 8 and 14 pixels: 2.0, 3.7, 2.9; 6.8, 9.1, 8.5; ..."""
    pads = (kernel // 2,) * 4
    size = (kernel, kernel)
    conv = ConvWorkload(1, 16, side, side, 16, size, (stride, stride), pads, groups=16)
    zen4 = with_family(Cpu("znver4", AVX512, cores=1))
    prices = [predict_seconds(conv, DepthwiseConfig(16, 16, n), zen4) for n in (7, 8, 14)]
    assert min(prices[1:]) > 1.1 * prices[0]


def test_wide_blocks_are_computed_vector_by_vector_in_16_registers() -> None:
    """Zen 3, in MobileNet-v2: 384x14x14 takes 28 us as 2 pixels x 32 channels, 21 as 7 x 8."""
    conv = ConvWorkload(1, 384, 14, 14, 384, (3, 3), padding=(1, 1, 1, 1), groups=384)
    zen = with_family(Cpu("znver3", AVX2, cores=1))
    best = {}
    for config in space(conv, zen):
        if config.oc_bn in (24, 32):
            seconds = predict_seconds(conv, config, zen)
            best[config.reg_c] = min(seconds, best.get(config.reg_c, seconds))
    assert 1.1 * best[8] < best[0]


def test_half_vectors_take_twice_the_instructions() -> None:
    halved = replace(CONFIG, ic_bn=8, oc_bn=8)
    assert 1.5 < price(CONV, halved) / price(CONV, CONFIG) < 2.2


def test_tiles_that_overhang_are_charged_for_what_they_compute() -> None:
    """Four tiles of seven columns cover 22 as well as 28."""
    assert price(replace(CONV, width=22), CONFIG) > 0.95 * price(CONV, CONFIG)
    assert price(replace(CONV, width=21), CONFIG) < 0.85 * price(CONV, CONFIG)


def test_padding_costs_nothing_where_taps_are_unrolled() -> None:
    """The taps test for the border themselves; in a rolled loop each of them has to."""
    padded = replace(CONV, height=28, width=28, padding=(1, 1, 1, 1))
    unpadded = replace(CONV, height=30, width=30, padding=(0, 0, 0, 0))
    assert unpadded.out_shape == padded.out_shape
    assert price(padded, CONFIG) <= price(unpadded, CONFIG)
    rolled = replace(CONFIG, unroll_ker=False)
    assert price(padded, rolled) > 1.1 * price(unpadded, rolled)


def test_the_copy_that_repeats_channels_is_charged() -> None:
    doubled = replace(CONV, out_channels=2 * CONV.out_channels)
    config = replace(CONFIG, oc_bn=2 * CONFIG.ic_bn)
    assert price(doubled, config) > 3 * price(CONV, CONFIG)
