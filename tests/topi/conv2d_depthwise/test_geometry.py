"""What a config of the depthwise template means for a convolution, and which mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import (
    DepthwiseConfig,
    DepthwiseGeometry,
    misfit,
    padded_bytes,
    upgrade,
)

CONV = ConvWorkload(2, 32, 14, 17, 32, (3, 3), padding=(1, 1, 1, 1), groups=32)
DOUBLED = replace(CONV, out_channels=64)
CONFIG = DepthwiseConfig(ic_bn=16, oc_bn=16, reg_n=9, reg_m=3, oh_bn=2)


def test_tiles_chunks_and_what_they_read() -> None:
    geometry = DepthwiseGeometry(CONV, CONFIG)
    assert geometry.tiles == (5, 2)
    assert (geometry.rows, geometry.columns) == (15, 18)
    assert geometry.padded_extent == (17, 20)
    # Two rows of tiles do not divide five.
    assert (geometry.chunk_rows, geometry.blocks, geometry.chunks) == (1, 2, 20)
    assert geometry.packed_shape == (2, 1, 3, 3, 1, 16)


def test_a_block_in_parts_has_more_tiles() -> None:
    whole = DepthwiseGeometry(CONV, CONFIG)
    assert (whole.tile_count, whole.config.tile_channels) == (2 * 2 * 5 * 2, 16)
    parts = DepthwiseGeometry(CONV, replace(CONFIG, reg_c=8))
    assert (parts.tile_count, parts.config.tile_channels) == (2 * whole.tile_count, 8)


def test_a_chunk_of_all_rows() -> None:
    geometry = DepthwiseGeometry(CONV, replace(CONFIG, oh_bn=0))
    assert (geometry.chunk_rows, geometry.chunks) == (5, 4)


def test_the_padding_stage_stores_what_a_chunk_reads() -> None:
    assert padded_bytes(CONV, 3, 16) == 4 * 16 * 5 * 19
    assert DepthwiseGeometry(CONV, CONFIG).chunk_bytes == padded_bytes(CONV, 3, 16)
    doubles = replace(CONV, types=uniform("float64"))
    assert padded_bytes(doubles, 3, 16) == 2 * padded_bytes(CONV, 3, 16)


def test_only_a_multiplier_copies_its_input() -> None:
    assert any(CONV.padding) and not DepthwiseGeometry(CONV, CONFIG).is_copied
    doubled = replace(CONV, out_channels=64)
    assert DepthwiseGeometry(doubled, replace(CONFIG, oc_bn=32)).is_copied


@pytest.mark.parametrize(
    ("conv", "config", "reason"),
    [
        (CONV, replace(CONFIG, ic_bn=12, oc_bn=12), "ic_bn 12 does not divide 32 channels"),
        (CONV, replace(CONFIG, ic_bn=0, oc_bn=0), "ic_bn 0 does not divide 32 channels"),
        # AutoTVM's records of K = 2C name one block for both: it read beyond the data.
        (DOUBLED, CONFIG, "oc_bn 16 is not ic_bn 16 times 2"),
        (CONV, replace(CONFIG, oc_bn=32), "oc_bn 32 is not ic_bn 16 times 1"),
        (CONV, replace(CONFIG, reg_n=0), "tiles are empty"),
        (CONV, replace(CONFIG, reg_m=0), "tiles are empty"),
        (CONV, replace(CONFIG, reg_c=12), "tiles of 12 channels do not divide oc_bn 16"),
        (CONV, replace(CONFIG, reg_c=-8), "tiles of -8 channels"),
    ],
)
def test_configs_that_do_not_fit(conv: ConvWorkload, config: DepthwiseConfig, reason: str) -> None:
    found = misfit(conv, config)
    assert found is not None and reason in found


def test_configs_that_fit() -> None:
    assert misfit(CONV, CONFIG) is None
    assert misfit(DOUBLED, replace(CONFIG, oc_bn=32)) is None
    assert misfit(CONV, replace(CONFIG, oh_bn=0)) is None


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({"oc_bn": 32, "multiplier": 2, "reg_n": 7}, {"ic_bn": 16, "oc_bn": 32, "reg_n": 7}),
        ({"oc_bn": 32, "multiplier": 0}, {"ic_bn": 32, "oc_bn": 32}),
        ({"ic_bn": 8, "oc_bn": 8}, {"ic_bn": 8, "oc_bn": 8}),
    ],
    ids=["version 0.1", "nonsense does not divide by zero", "today"],
)
def test_knobs_of_older_logs(knobs: dict[str, int], expected: dict[str, int]) -> None:
    assert upgrade(knobs) == expected
