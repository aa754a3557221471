"""What a config means for a convolution to few channels, and which configs of a log fit none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig, FewGeometry, misfit

CONV = ConvWorkload(2, 32, 12, 15, 3, (3, 3), (1, 2), (1, 1, 1, 1))
CONFIG = FewConfig(16, 3, 6, 8, oh_bn=5)


def test_tiles_lanes_and_chunks() -> None:
    """Eight columns of outputs are two tiles of 6; chunks of 5 rows are of 4, a factor of 12."""
    geometry = FewGeometry(CONV, CONFIG)
    assert (geometry.in_blocks, geometry.parts, geometry.steps) == (2, 2, 36)
    assert (geometry.tiles, geometry.columns, geometry.overhangs) == (2, 12, True)
    assert (geometry.chunk_rows, geometry.chunks) == (4, 6)
    assert geometry.padded_extent == (14, 25)
    assert geometry.packed_shape == (2, 3, 3, 2, 3, 8)


def test_what_reads_the_image_itself() -> None:
    plain = replace(CONV, kernel=(1, 1), padding=(0, 0, 0, 0))
    assert not FewGeometry(plain, replace(CONFIG, reg_n=4)).is_padded
    assert FewGeometry(plain, CONFIG).is_padded  # its last tile reads beyond the image
    assert FewGeometry(CONV, replace(CONFIG, reg_n=4)).is_padded


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(CONFIG, ic_bn=12), "does not divide 32 channels"),
        (replace(CONFIG, oc_bn=1), "is not all 3 channels"),
        (replace(CONFIG, reg_n=0), "are empty"),
        (replace(CONFIG, lanes=6), "no power of two"),
        (replace(CONFIG, lanes=32), "no power of two that divides a block of 16"),
    ],
)
def test_misfits(config: FewConfig, reason: str) -> None:
    assert misfit(CONV, CONFIG) is None
    assert reason in str(misfit(CONV, config))


def test_groups_are_none_of_it() -> None:
    assert "grouped" in str(misfit(replace(CONV, out_channels=4, groups=2), CONFIG))
