"""What a config of the im2col template means for a convolution, and which configs mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig, Im2colGeometry, misfit

PIXELS = ConvWorkload(8, 32, 1, 1, 48, (1, 1))
IMAGE = ConvWorkload(2, 24, 5, 7, 48, (3, 2), padding=(1, 0, 1, 1))


def test_only_the_last_tile_overhangs() -> None:
    strided = replace(PIXELS, height=5, width=9, stride=(2, 2))
    geometry = Im2colGeometry(strided, Im2colConfig(16, 48, 7, 6))
    assert geometry.pixels == 120
    assert (geometry.row_chunks, geometry.chunk_pixels, geometry.computed_pixels) == (3, 42, 126)
    assert geometry.overhangs
    assert not Im2colGeometry(PIXELS, Im2colConfig(16, 48, 4, 2)).overhangs


def test_a_matrix_product_over_pixels_reads_in_place() -> None:
    config = Im2colConfig(16, 48, 4, 2)
    assert Im2colGeometry(PIXELS, config).reads_in_place
    assert not Im2colGeometry(replace(PIXELS, stride=(2, 2)), config).reads_in_place
    assert not Im2colGeometry(PIXELS, config, computed=True).reads_in_place
    assert not Im2colGeometry(PIXELS, replace(config, ic_bn=0)).reads_in_place


def test_of_several_chunks_in_place_none_ends_in_a_narrower_tile() -> None:
    """Two cores would write the same pixels: a tile's test knows the end of the image only."""
    image = replace(PIXELS, batch=1, height=14, width=14)
    one = Im2colGeometry(image, Im2colConfig(16, 48, 6, 33))
    assert (one.row_chunks, one.chunk_tiles, one.last_tile) == (1, 33, 4)
    for reg_n in range(1, 8):
        for tiles in range(1, 200):
            found = Im2colGeometry(image, Im2colConfig(16, 48, reg_n, tiles))
            if found.reads_in_place and found.row_chunks > 1:
                assert found.last_tile == reg_n and not found.overhangs


def test_the_last_walk_is_of_the_blocks_that_are_left() -> None:
    image = replace(PIXELS, out_channels=208)
    for reg_o, expected in ((1, (13, 1)), (2, (7, 1)), (3, (5, 1)), (4, (4, 1)), (5, (3, 3))):
        geometry = Im2colGeometry(image, Im2colConfig(16, 16, 4, 2, reg_o=reg_o))
        assert (geometry.walks, geometry.last_blocks) == expected
        assert geometry.chunks == geometry.row_chunks
        assert geometry.packed_shape[0] == 13


def test_pixels_that_no_count_near_divides_are_copied() -> None:
    image = replace(PIXELS, batch=1, height=7, width=7)
    assert Im2colGeometry(image, Im2colConfig(16, 48, 5, 10)).reads_in_place
    halves = Im2colGeometry(image, Im2colConfig(16, 48, 5, 5))
    assert (halves.reads_in_place, halves.row_chunks, halves.computed_pixels) == (False, 2, 50)


def test_pixels_are_asked_for_where_l2_does_not_keep_them() -> None:
    cpu = Cpu("znver3", AVX2, cores=1, l2=512 * 1024)
    image = ConvWorkload(1, 1024, 14, 14, 512, (1, 1))
    asks = {
        (tiles, split): Im2colGeometry(
            image, Im2colConfig(64, 16, 4, tiles, split)
        ).asks_for_pixels(cpu)
        for tiles in (49, 7)
        for split in (False, True)
    }
    assert asks == {(49, False): True, (49, True): True, (7, False): False, (7, True): True}


def test_passes_before_the_product() -> None:
    config = Im2colConfig(8, 16, 7, 5)
    passes = {
        (ic_bn, split): Im2colGeometry(
            IMAGE, replace(config, ic_bn=ic_bn, parallel_oc=split)
        ).passes_before
        for ic_bn in (0, 8)
        for split in (False, True)
    }
    assert passes == {(8, False): 0, (8, True): 1, (0, False): 1, (0, True): 2}
    assert Im2colGeometry(PIXELS, Im2colConfig(16, 48, 8, 1, True)).passes_before == 0


def test_chunks_and_packed_weights() -> None:
    geometry = Im2colGeometry(IMAGE, Im2colConfig(8, 24, 7, 5, True, 32))
    assert (geometry.row_chunks, geometry.out_blocks, geometry.chunks) == (2, 2, 4)
    assert geometry.packed_shape == (2, 3 * 6, 8, 32)
    assert Im2colGeometry(IMAGE, Im2colConfig(0, 24, 7)).packed_shape == (2, 24 * 6, 1, 24)


def test_parts_of_the_packed_weights() -> None:
    """Where a core walks all blocks of a part, they lie one behind the other."""
    config = Im2colConfig(8, 24, 7, 5, oc_lanes=32, parts=3)
    assert Im2colGeometry(IMAGE, config).packed_shape == (3, 2, 6, 8, 32)
    split = replace(config, parallel_oc=True)
    assert Im2colGeometry(IMAGE, split).packed_shape == (2, 3, 6, 8, 32)


def test_sums_between_parts() -> None:
    config = Im2colConfig(8, 24, 7, 5, oc_lanes=32, parts=3)
    assert Im2colGeometry(IMAGE, config).sum_bytes == 4 * 35 * 2 * 32
    assert Im2colGeometry(IMAGE, replace(config, parallel_oc=True)).sum_bytes == 4 * 35 * 32
    assert Im2colGeometry(IMAGE, replace(config, parts=1)).sum_bytes == 0


def test_columns_take_the_bytes_of_their_type() -> None:
    config = Im2colConfig(8, 24, 7, 5)
    assert Im2colGeometry(IMAGE, config).column_bytes == 4 * 35 * 24 * 6
    doubles = replace(IMAGE, types=uniform("float64"))
    assert Im2colGeometry(doubles, config).column_bytes == 8 * 35 * 24 * 6


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Im2colConfig(16, 24, 7, parts=0), "its reduction has no such parts"),
        (Im2colConfig(16, 24, 7, parts=4), "its reduction has no such parts"),
        (Im2colConfig(4, 24, 7, parts=3), "3 parts do not divide its reduction"),
        (Im2colConfig(5, 48, 7), "ic_bn 5 does not divide 32 channels"),
        (Im2colConfig(16, 32, 7), "oc_bn 32 does not divide 48 channels"),
        (Im2colConfig(16, 0, 7), "oc_bn 0 does not divide 48 channels"),
        (Im2colConfig(16, 24, 7, oc_lanes=16), "16 lanes are fewer than oc_bn"),
        (Im2colConfig(16, 48, 0), "tiles are empty"),
        (Im2colConfig(16, 48, 7, 0), "tiles are empty"),
        (Im2colConfig(16, 16, 7, reg_o=0), "tiles are empty"),
        (Im2colConfig(16, 16, 7, 2, True, reg_o=2), "tiles of several blocks are not dealt out"),
    ],
)
def test_configs_that_do_not_fit(config: Im2colConfig, reason: str) -> None:
    found = misfit(PIXELS, config)
    assert found is not None and reason in found


@pytest.mark.parametrize("config", [Im2colConfig(0, 48, 5), Im2colConfig(16, 24, 8, 3, True, 32)])
def test_configs_that_fit(config: Im2colConfig) -> None:
    assert misfit(PIXELS, config) is None
