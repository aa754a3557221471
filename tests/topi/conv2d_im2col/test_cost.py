"""What the im2col template's cost model must rank rightly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.cpus import ZEN_3
from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import predict_seconds as direct_seconds
from tvm_neocpu.topi.conv2d_direct.space import space as direct_space
from tvm_neocpu.topi.conv2d_im2col.cost import predict_seconds
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_im2col.space import space

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
PIXELS = ConvWorkload(8, 1280, 1, 1, 320, (1, 1))


def test_a_batch_of_pixels_is_predicted_far_ahead_of_the_direct_template() -> None:
    """Measured on one core of a Zen 5: 32 us against 147 us."""
    best, other = (
        min(price(PIXELS, config, SKYLAKE) for config in configs)
        for price, configs in (
            (predict_seconds, space(PIXELS, SKYLAKE)),
            (direct_seconds, direct_space(PIXELS, SKYLAKE)),
        )
    )
    assert other > 2 * best


def test_columns_cost_and_data_in_place_does_not() -> None:
    in_place, copied = Im2colConfig(64, 32, 8), Im2colConfig(64, 32, 7, 2)
    strided = replace(PIXELS, stride=(2, 2))
    assert predict_seconds(strided, in_place, SKYLAKE) > predict_seconds(PIXELS, in_place, SKYLAKE)
    assert predict_seconds(PIXELS, copied, SKYLAKE) > predict_seconds(PIXELS, in_place, SKYLAKE)


@pytest.mark.parametrize(
    ("conv", "config", "parts", "least"),
    [
        # Zen 3, one thread, weights in memory: 3543 and 2621 us, 1265 and 1149, 1228 and 1201.
        (
            ConvWorkload(1, 512, 14, 14, 512, (3, 3), (2, 2), (1, 1, 1, 1)),
            Im2colConfig(64, 16, 5, 10),
            18,
            1.15,
        ),
        (ConvWorkload(1, 2048, 7, 7, 512, (1, 1)), Im2colConfig(8, 16, 5, 10), 8, 1.05),
        (ConvWorkload(1, 1024, 14, 14, 256, (1, 1)), Im2colConfig(64, 16, 6, 33), 4, 1.01),
    ],
)
def test_parts_that_stay_in_l1_gain(
    conv: ConvWorkload, config: Im2colConfig, parts: int, least: float
) -> None:
    whole, cut = (predict_seconds(conv, replace(config, parts=p), ZEN_3) for p in (1, parts))
    assert whole > least * cut


def test_parts_of_a_panel_that_stays_anyway_cost() -> None:
    conv, config = ConvWorkload(1, 256, 14, 14, 1024, (1, 1)), Im2colConfig(64, 16, 6, 33)
    whole, cut = (predict_seconds(conv, replace(config, parts=p), ZEN_3) for p in (1, 2))
    assert cut > whole
