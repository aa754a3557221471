"""What Winograd's tiles see of a convolution, and what a config means for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import (
    FLAT,
    WinogradConfig,
    WinogradGeometry,
)
from tvm_neocpu.topi.conv2d_winograd.misfit import misfit
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv, seen_by_tiles, unit_stride

CONV = ConvWorkload(2, 32, 14, 17, 48, (3, 3), padding=(1, 1, 1, 1))
STRIDED = ConvWorkload(1, 4, 12, 12, 16, (3, 3), (2, 2), (1, 1, 1, 1))
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3))
CONFIG = WinogradConfig(ic_bn=16, oc_bn=16, tile=4, reg_n=2, reg_m=2, th_bn=2)


def test_a_stem_is_a_convolution_of_stride_1_over_its_phases() -> None:
    seen = unit_stride(STEM)
    assert (seen.in_channels, seen.kernel, seen.stride) == (12, (4, 4), (1, 1))
    assert seen.in_shape == (1, 12, 115, 115)
    assert seen.out_shape == STEM.out_shape
    assert not any(seen.padding)


def test_the_config_says_whether_a_first_convolution_reads_plain_data() -> None:
    assert seen_by_tiles(STRIDED, plain=False) is STRIDED
    assert seen_by_tiles(STRIDED, plain=True) == unit_stride(STRIDED)
    blocked, plain = (
        WinogradGeometry(STRIDED, WinogradConfig(ic_bn, 16, 2, 2)).packed_shape for ic_bn in (4, 0)
    )
    assert blocked == (1, 5, 5, 1, 4, 16)
    assert plain == (1, 3, 3, 1, 16, 16)


def test_tiles() -> None:
    tiled = TiledConv(CONV, 4, plain=False)
    assert (tiled.products, tiled.outputs, tiled.hop, tiled.tiles) == (36, (4, 4), (4, 4), (4, 5))
    row = TiledConv(replace(CONV, kernel=(1, 7), padding=(0, 3, 0, 3)), 3, plain=False)
    assert (row.products, row.outputs, row.tiles) == (9, (1, 3), (14, 6))
    strided = TiledConv(replace(CONV, stride=(2, 2)), 4, plain=False)
    assert (strided.products, strided.hop) == (81, (8, 8))


def test_register_tiles_divide_the_grid() -> None:
    geometry = WinogradGeometry(CONV, CONFIG)
    assert geometry.grid == (4, 6)
    assert geometry.padded_extent == (18, 26)
    assert (geometry.chunk_rows, geometry.row_chunks, geometry.chunks) == (2, 2, 4)
    assert geometry.register_rows == 2
    assert geometry.packed_shape == (3, 6, 6, 2, 16, 16)
    by_channels = WinogradGeometry(CONV, replace(CONFIG, parallel_oc=True))
    assert by_channels.chunks == 6


def test_chunks_of_channels_that_transform_the_input() -> None:
    by_core = WinogradGeometry(CONV, replace(CONFIG, oc_chunks=3))
    assert (by_core.chunks, by_core.packed_copies, by_core.packs_apart) == (6, 3, False)
    together = WinogradGeometry(CONV, replace(CONFIG, parallel_oc=True))
    assert (together.packed_copies, together.packs_apart) == (1, True)


def test_last_tiles_take_fewer_products() -> None:
    """14 rows are 4 + 4 + 4 + 2, 17 columns 4 times 4 and 1; the sixth column is only rounding."""
    whole = WinogradGeometry(CONV, replace(CONFIG, th_bn=4, parallel_oc=True))
    assert whole.drops_tiles
    assert whole.needed_tiles == ((3, 4, 4, 4, 4, 3), (6, 4, 4, 6, 6, 4))
    # In register tiles of 2 x 2: rows are 10 times 2 and twice 1, columns 15 times 2.
    assert dict(whole.register_tiles) == {4: 2 * 10 * 15, 2: 2 * 2 * 15}
    # A chunk of some rows does not know whether its last row is the image's.
    assert WinogradGeometry(CONV, CONFIG).needed_tiles == ((2,) * 6, (6, 4, 4, 6, 6, 4))
    flat = WinogradGeometry(CONV, replace(CONFIG, reg_m=FLAT))
    assert not flat.drops_tiles and flat.tails == (None, None)


def test_images_of_a_chunk_are_one_axis_of_tiles() -> None:
    """Four tiles of F(4x4) an image, six images: a chunk of at most five has three."""
    conv = replace(CONV, batch=6, height=7, width=7)
    config = replace(CONFIG, reg_m=FLAT, reg_n=5, th_bn=10, parallel_oc=True)
    three = WinogradGeometry(conv, config)
    assert (three.images, three.batches, three.chunk_tiles) == (3, 2, 12)
    assert three.product_shape == (2, three.out_blocks, 6, 6, 12, three.oc_bn)
    assert three.chunks == 2 * three.out_blocks
    # Twice 5 tiles and once 2, for each of 36 products of each set of images.
    assert dict(three.register_tiles) == {5: 2 * 36 * 2, 2: 2 * 36}
    in_rows = WinogradGeometry(conv, replace(config, reg_m=1, reg_n=2))
    assert (in_rows.images, in_rows.batches) == (1, 6)
    assert WinogradGeometry(conv, replace(config, th_bn=1)).images == 1


def test_what_has_whole_tiles_drops_none() -> None:
    geometry = WinogradGeometry(replace(CONV, height=16, width=16), CONFIG)
    assert not geometry.drops_tiles
    assert geometry.register_tiles == ((4, 2 * 36 * 4),)


def test_a_register_tile_is_no_higher_than_its_chunk() -> None:
    assert WinogradGeometry(CONV, replace(CONFIG, th_bn=1)).register_rows == 1


def test_channels_of_a_stem_as_they_are_stored_multiplied_and_transformed() -> None:
    rows = WinogradGeometry(STEM, WinogradConfig(0, 16, 4, 7))
    assert (rows.in_channels, rows.ic_bn, rows.stored_ic_bn, rows.in_blocks) == (12, 12, 16, 1)
    # A chunk transforms what its products read, a pass over the image all that is stored.
    assert rows.transformed_channels == 12
    by_channels = WinogradGeometry(STEM, WinogradConfig(0, 16, 4, 7, parallel_oc=True))
    assert by_channels.transformed_channels == 16


@pytest.mark.parametrize("tile", [-1, 0, 1, 5, 7, 9])
def test_there_are_no_other_tiles(tile: int) -> None:
    found = misfit(CONV, replace(CONFIG, tile=tile))
    assert found == f"there are no tiles of {tile}; there are 2, 3, 4, 6"


@pytest.mark.parametrize(
    ("conv", "config", "reason"),
    [
        (CONV, replace(CONFIG, ic_bn=12), "ic_bn 12 does not divide 32 channels"),
        (CONV, replace(CONFIG, oc_bn=32), "oc_bn 32 does not divide 48 channels"),
        (CONV, replace(CONFIG, oc_bn=0), "oc_bn 0 does not divide 48 channels"),
        (CONV, replace(CONFIG, reg_n=0), "are empty"),
        (CONV, replace(CONFIG, reg_m=-1), "are empty"),
        (CONV, replace(CONFIG, th_bn=0), "are empty"),
        (CONV, replace(CONFIG, oc_chunks=2), "oc_chunks 2 do not divide its blocks"),
        (CONV, replace(CONFIG, oc_chunks=-1), "oc_chunks -1 do not divide its blocks"),
        (CONV, replace(CONFIG, oc_chunks=3, parallel_oc=True), "take blocked data of one group"),
        (STEM, WinogradConfig(0, 16, 4, 7, oc_chunks=2), "take blocked data of one group"),
        (replace(CONV, kernel=(7, 7)), replace(CONFIG, tile=6), "needs 11 points; 8 are known"),
    ],
)
def test_configs_that_do_not_fit(conv: ConvWorkload, config: WinogradConfig, reason: str) -> None:
    found = misfit(conv, config)
    assert found is not None and reason in found


def test_configs_that_fit() -> None:
    assert misfit(CONV, CONFIG) is None
    assert misfit(CONV, replace(CONFIG, oc_chunks=3)) is None
    assert misfit(STEM, WinogradConfig(0, 16, 4, 7)) is None
    assert misfit(replace(CONV, kernel=(1, 7)), replace(CONFIG, tile=3)) is None
