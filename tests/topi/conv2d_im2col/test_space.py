"""The im2col template's space, its guard, and what its cost model must rank rightly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct import space as direct
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_im2col.space import (
    accepts,
    chunkings,
    gain,
    pixel_tiles,
    predict_seconds,
    space,
)

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
PIXELS = ConvWorkload(8, 1280, 1, 1, 320, (1, 1))
SAME = (1, 1, 1, 1)
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL])
def test_batches_of_single_pixels_are_taken(cpu: Cpu) -> None:
    for batch in (2, 4, 8, 16):
        assert accepts(replace(PIXELS, batch=batch), cpu)
    assert gain(PIXELS, cpu) > gain(replace(PIXELS, batch=2), cpu)


@pytest.mark.parametrize(
    "conv",
    [
        pytest.param(replace(PIXELS, batch=1), id="one pixel"),
        pytest.param(STEM, id="stem"),
        pytest.param(ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=SAME), id="wide"),
        pytest.param(ConvWorkload(1, 64, 35, 35, 96, (5, 5), padding=(2,) * 4), id="odd"),
        pytest.param(ConvWorkload(8, 512, 7, 7, 512, (3, 3), padding=SAME), id="batch"),
        pytest.param(replace(PIXELS, groups=4), id="groups"),
    ],
)
def test_images_that_direct_tiles_fit_are_declined(conv: ConvWorkload) -> None:
    assert not accepts(conv, SKYLAKE)


def test_spaces_stay_small() -> None:
    for batch in (2, 3, 8, 16, 64, 128):
        assert 0 < len(space(replace(PIXELS, batch=batch), SKYLAKE)) <= 2000


def test_a_register_tile_wastes_no_pixel_where_it_can() -> None:
    assert pixel_tiles(PIXELS, 2, SKYLAKE)[0] == 8
    assert pixel_tiles(replace(PIXELS, batch=26), 2, SKYLAKE)[0] == 13


def test_chunks_of_plain_data_are_whole_rows() -> None:
    for reg_n in (7, 14, 28):
        for tiles, _ in chunkings(STEM, 0, reg_n, SKYLAKE):
            assert tiles * reg_n % STEM.out_width == 0


def test_a_batch_of_pixels_is_predicted_far_ahead_of_the_direct_template() -> None:
    """Measured on one core of a Zen 5: 32 us against 147 us."""
    best, other = (
        min(price(PIXELS, config, SKYLAKE) for config in configs)
        for price, configs in (
            (predict_seconds, space(PIXELS, SKYLAKE)),
            (direct.predict_seconds, direct.space(PIXELS, SKYLAKE)),
        )
    )
    assert other > 2 * best


def test_columns_cost_and_data_in_place_does_not() -> None:
    in_place, copied = Im2colConfig(64, 32, 8), Im2colConfig(64, 32, 7, 2)
    strided = replace(PIXELS, stride=(2, 2))
    assert predict_seconds(strided, in_place, SKYLAKE) > predict_seconds(PIXELS, in_place, SKYLAKE)
    assert predict_seconds(PIXELS, copied, SKYLAKE) > predict_seconds(PIXELS, in_place, SKYLAKE)
