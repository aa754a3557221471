"""What the im2col template's cost model must rank rightly."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.cpu import AVX512, Cpu
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
