"""What tiles can compute, and which rows of pixels are one run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import IntegerTilesConfig, cut_of, geometry_of, misfit

CONV = ConvWorkload(1, 128, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1), types=U8S8)
CONFIG = IntegerTilesConfig(ic_bn=64, oc_bn=32, reg_n=14, reg_m=2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ic_bn": 0}, "it reads plain NCHW, which has no rows of words"),
        ({"oc_bn": 8}, "its 8 channels are no number of tiles of 16 filters"),
        ({"oc_lanes": 40}, "its 40 channels are no number of tiles of 16 filters"),
        ({"oc_lanes": 48}, "its filled block takes more than one pass"),
        ({"reg_m": 7}, "its sums take more than 4 registers"),
    ],
)
def test_what_no_tiles_compute(changes: dict[str, int], reason: str) -> None:
    assert misfit(CONV, CONFIG) is None
    assert misfit(CONV, replace(CONFIG, **changes)) == reason


def test_rows_of_a_whole_image_are_one_run() -> None:
    """Of a 1x1 kernel; around a padded image lie other pixels, which are computed in vain."""
    conv = ConvWorkload(1, 128, 7, 7, 64, (1, 1), types=U8S8)
    config = IntegerTilesConfig(ic_bn=64, oc_bn=16, reg_n=7, reg_m=7)
    assert cut_of(geometry_of(conv, config)).pixels == 13
    padded = replace(conv, kernel=(3, 3), padding=(1, 1, 1, 1))
    found = cut_of(geometry_of(padded, config))
    assert (found.products, found.pixels, found.gap) == (4, 16, 2)
    # Of a kernel that steps by two pixels, rows of 15 lie 15 steps apart.
    strided = replace(padded, height=14, width=14, stride=(2, 2))
    assert misfit(strided, config) == "its sums take more than 4 registers"
