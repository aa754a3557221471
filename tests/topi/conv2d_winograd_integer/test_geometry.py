"""What configs of integer Winograd mean: words of two channels, bounds of 16 and of 32 bits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import VPDPBUSD, VPDPWSSD, VPMADDWD
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import (
    IntegerWinogradConfig,
    IntegerWinogradGeometry,
    misfit,
    overflow,
)

HASWELL = Cpu("haswell", AVX2, cores=1, dots=(VPMADDWD,))
ZEN_4 = Cpu("znver4", AVX512, cores=1, dots=(VPDPBUSD, VPDPWSSD))
CONV = ConvWorkload(1, 64, 14, 14, 48, (3, 3), padding=(1, 1, 1, 1), types=U8S8, pad_value=128)
CONFIG = IntegerWinogradConfig(ic_bn=16, oc_bn=16, tile=4, reg_n=4)


def test_what_overflows() -> None:
    assert overflow(CONV, 4) is None
    assert overflow(CONV, 6) == "transformed data of tiles of 6 do not fit int16"
    assert overflow(replace(CONV, in_channels=1828), 2) == (
        "sums over 1828 channels do not fit 32 bits in tiles of 2"
    )
    assert overflow(replace(CONV, in_channels=1827), 4) is None


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(CONFIG, ic_bn=1), "its ic_bn 1 is no whole number of words"),
        (replace(CONFIG, ic_bn=12), "its ic_bn 12 does not divide 64 channels"),
        (replace(CONFIG, tile=6), "transformed data of tiles of 6 do not fit int16"),
        (replace(CONFIG, tile=5), "there are no tiles of 5; there are 2, 3, 4, 6"),
    ],
)
def test_misfits(config: IntegerWinogradConfig, reason: str) -> None:
    assert misfit(CONV, config) == reason
    assert misfit(CONV, CONFIG) is None


def test_words_have_no_groups() -> None:
    """Blocks would pass as whole groups; the template's words and padding know of one only."""
    conv = replace(CONV, in_channels=32, out_channels=32, groups=2)
    reason = misfit(conv, replace(CONFIG, ic_bn=16, oc_bn=16))
    assert reason == "it multiplies words of channels, which no grouped convolution has"


def test_a_word_of_weights_is_two_channels() -> None:
    geometry = IntegerWinogradGeometry(CONV, CONFIG)
    assert geometry.packed_shape == (3, 6, 6, 4, 8, 16)
    assert geometry.tiled.divisor == 900
    assert geometry.dot(HASWELL) == VPMADDWD and geometry.dot(ZEN_4) == VPDPWSSD
