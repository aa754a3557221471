"""What a config of the deformable template means, and which configs mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig, DeformGeometry, misfit
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

DEFORM = DeformConvWorkload(
    2, 24, 5, 7, 48, (3, 2), padding=(1, 0, 1, 1), groups=2, offset_groups=3, masked=True
)
CONFIG = DeformConfig(4, 24, 7, 2)


def test_the_product_is_one_groups_over_all_filters() -> None:
    geometry = DeformGeometry(DEFORM, CONFIG)
    assert geometry.product.pixels == 2 * 5 * 7
    assert geometry.product.packed_shape == (2, 3 * 6, 4, 24)
    assert geometry.groups_blocks == (3, 1)


def test_blocks_of_channels() -> None:
    geometry = DeformGeometry(DEFORM, CONFIG)
    assert geometry.in_blocks == 6
    assert geometry.blocks_of_place == 2
    assert DeformGeometry(DEFORM, replace(CONFIG, ic_bn=2)).blocks_of_place == 4


def test_bytes_of_a_chunk() -> None:
    geometry = DeformGeometry(DEFORM, CONFIG)
    assert geometry.column_bytes == 4 * 24 * 6 * 14
    assert geometry.place_bytes == (4 + 4) * 4 * 3 * 6 * 14
    doubles = DeformGeometry(replace(DEFORM, types=uniform("float64")), CONFIG)
    assert doubles.column_bytes == 2 * geometry.column_bytes
    assert doubles.place_bytes == 1.5 * geometry.place_bytes


def test_places_of_overhanging_pixels_are_computed_too() -> None:
    geometry = DeformGeometry(DEFORM, replace(CONFIG, reg_n=8))
    assert geometry.computed_samples == 3 * 6 * 80
    assert DEFORM.samples == 3 * 6 * 70


@pytest.mark.parametrize(
    ("batch", "tiles", "scattered"),
    [(1, 5, False), (1, 2, True), (2, 5, False), (2, 2, True), (2, 10, True)],
)
def test_offsets_of_a_chunk_lie_side_by_side_in_one_image(
    batch: int, tiles: int, scattered: bool
) -> None:
    config = replace(CONFIG, tiles=tiles)
    assert DeformGeometry(replace(DEFORM, batch=batch), config).scatters_offsets == scattered


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(CONFIG, ic_bn=8), "ic_bn 8 does not divide the 4 channels"),
        (replace(CONFIG, ic_bn=0), "ic_bn 0 does not divide"),
        (replace(CONFIG, oc_bn=48), "oc_bn 48 does not divide 24 channels"),
        (replace(CONFIG, oc_lanes=16), "16 lanes are fewer than oc_bn"),
        (replace(CONFIG, reg_n=0), "tiles are empty"),
        (replace(CONFIG, tiles=0), "tiles are empty"),
        (replace(CONFIG, parts=2), "not cut into parts"),
    ],
)
def test_configs_that_do_not_fit(config: DeformConfig, reason: str) -> None:
    found = misfit(DEFORM, config)
    assert found is not None and reason in found


@pytest.mark.parametrize("config", [CONFIG, DeformConfig(2, 12, 9, 1, True, 16)])
def test_configs_that_fit(config: DeformConfig) -> None:
    assert misfit(DEFORM, config) is None
