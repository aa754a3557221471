"""What is copied of an image, and configs of logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig, SplitGeometry, misfit
from tvm_neocpu.tuning.database.lines.entities import decode_config

CONV = ConvWorkload(1, 32, 4, 6, 16, (1, 1), types=U8S8)
CONFIG = SplitConfig(ic_bn=16, oc_bn=16, reg_n=2, reg_m=2)


def test_whole_tiles_of_the_pixels_that_are_read_are_copied() -> None:
    """7 x 7 pixels of 13 x 14, in tiles of 2 x 2."""
    geometry = SplitGeometry(replace(CONV, height=13, width=14, stride=(2, 2)), CONFIG)
    assert geometry.stride == (1, 1) and geometry.copied_extent == (8, 8)
    assert (geometry.pairs, geometry.words, geometry.inner_steps) == (8, 4, 2)
    assert geometry.flags_tiles


def test_kernels_of_several_taps_copy_the_padded_image() -> None:
    """5 x 14 outputs in tiles of 9: 18 columns and a reach of 7; strided, each second row."""
    conv = replace(CONV, height=9, width=14, kernel=(1, 7), stride=(2, 1), padding=(0, 3, 0, 3))
    geometry = SplitGeometry(conv, replace(CONFIG, reg_n=9, reg_m=1, unroll_ker=False))
    assert geometry.copied_extent == (9, 24) and not geometry.flags_tiles
    assert geometry.flag_of((2, 11), (0, 3)) == (4, 12)


def test_channels_of_sums_are_quarters_of_a_block_apart() -> None:
    """The first word of a step has pairs 0 and 1, the second one those of the next quarter."""
    order = SplitGeometry(CONV, CONFIG).order
    assert order[:8] == [0, 8, 1, 9, 4, 12, 5, 13] and sorted(order) == list(range(16))


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(CONFIG, reg_m=1), "taps are a loop"),
        (replace(CONFIG, unroll_ker=False), "parts of a row"),
    ],
    ids=str,
)
def test_configs_that_do_not_fit_several_taps(config: SplitConfig, reason: str) -> None:
    found = misfit(replace(CONV, kernel=(3, 3)), config)
    assert found is not None and reason in found


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(CONFIG, ic_bn=4), "no whole number of steps"),
        (replace(CONFIG, ic_bn=0), "no whole number of steps"),
        (replace(CONFIG, dot=2), "words of 4 bytes"),
        (replace(CONFIG, words=1), "2 words of 4 bytes"),
        (replace(CONFIG, signed=True), "words of 4 bytes"),
        (replace(CONFIG, oc_bn=3), "does not divide"),
    ],
    ids=str,
)
def test_configs_of_logs_that_do_not_fit(config: SplitConfig, reason: str) -> None:
    found = misfit(CONV, config)
    assert found is not None and reason in found and misfit(CONV, CONFIG) is None


def test_lines_of_steps_of_one_word_load() -> None:
    """Those of 2026-11-22 say so."""
    knobs = {"ic_bn": 16, "oc_bn": 16, "reg_n": 2, "unroll_ker": True, "reg_m": 2}
    knobs |= {"dot": 4, "words": 1, "signed": False}
    line = [[name, "ot", value] for name, value in knobs.items()]
    config = decode_config(SplitConfig.template, line)
    assert config == CONFIG
    assert isinstance(config, SplitConfig) and misfit(CONV, config) is None
