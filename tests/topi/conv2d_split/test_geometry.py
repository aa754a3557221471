"""What is copied of an image, and configs of logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig, SplitGeometry, misfit

CONV = ConvWorkload(1, 32, 4, 6, 16, (1, 1), types=U8S8)
CONFIG = SplitConfig(ic_bn=16, oc_bn=16, reg_n=2, reg_m=2)


def test_whole_tiles_of_the_pixels_that_are_read_are_copied() -> None:
    """7 x 7 pixels of 13 x 14, in tiles of 2 x 2."""
    geometry = SplitGeometry(replace(CONV, height=13, width=14, stride=(2, 2)), CONFIG)
    assert geometry.stride == (1, 1) and geometry.copied_extent == (8, 8)
    assert (geometry.pairs, geometry.words) == (8, 4)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(CONFIG, ic_bn=2), "no whole number of words"),
        (replace(CONFIG, ic_bn=0), "no whole number of words"),
        (replace(CONFIG, dot=2), "words of 4 bytes"),
        (replace(CONFIG, words=2), "words of 4 bytes"),
        (replace(CONFIG, signed=True), "words of 4 bytes"),
        (replace(CONFIG, oc_bn=3), "does not divide"),
    ],
    ids=str,
)
def test_configs_of_logs_that_do_not_fit(config: SplitConfig, reason: str) -> None:
    found = misfit(CONV, config)
    assert found is not None and reason in found and misfit(CONV, CONFIG) is None
