"""Which tiles integers allow: by their bounds, products saved, the user's switch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import VPDPBUSD, VPDPWSSD, VPMADDWD
from tvm_neocpu.core.types import U8S8, U8S16
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.topi.conv2d_winograd_integer.geometry import (
    IntegerWinogradConfig,
    IntegerWinogradGeometry,
    misfit,
)
from tvm_neocpu.topi.conv2d_winograd_integer.implementation import INTEGER_WINOGRAD
from tvm_neocpu.topi.conv2d_winograd_integer.space import accepts, allowed_tiles, forbids, space

HASWELL = Cpu("haswell", AVX2, cores=1, dots=(VPMADDWD,))
ZEN_4 = Cpu("znver4", AVX512, cores=1, dots=(VPDPBUSD, VPDPWSSD))
CONV = ConvWorkload(1, 64, 14, 14, 48, (3, 3), padding=(1, 1, 1, 1), types=U8S8, pad_value=128)
CONFIG = IntegerWinogradConfig(ic_bn=16, oc_bn=16, tile=4, reg_n=4)


@pytest.mark.parametrize(
    ("conv", "tiles"),
    [
        pytest.param(CONV, (2, 3, 4), id="3x3"),
        pytest.param(replace(CONV, height=2, width=2), (2,), id="a tiny image"),
        pytest.param(replace(CONV, kernel=(1, 1), padding=(0, 0, 0, 0)), (), id="1x1"),
        pytest.param(replace(CONV, in_channels=1824), (2, 3, 4), id="channels whose sums fit"),
        pytest.param(replace(CONV, in_channels=1828), (), id="too many channels"),
        pytest.param(replace(CONV, dilation=(2, 2)), (2, 3, 4), id="dilation"),
    ],
)
def test_tiles(conv: ConvWorkload, tiles: tuple[int, ...]) -> None:
    assert allowed_tiles(conv) == tiles
    assert accepts(conv, HASWELL) == (bool(tiles) and conv.dilation == (1, 1))


def test_a_first_convolution_is_over_its_phases() -> None:
    """12 channels fill 16 lanes, all of which are multiplied; a 7x7 kernel becomes 4x4."""
    stem = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8)
    assert allowed_tiles(stem) == (2, 3)
    assert {config.ic_bn for config in space(stem, HASWELL)} == {0}
    plain = replace(CONFIG, ic_bn=0, tile=3)
    assert misfit(stem, plain) is None
    assert misfit(stem, replace(plain, tile=4)) == "transformed data of tiles of 4 do not fit int16"
    assert IntegerWinogradGeometry(stem, plain).packed_shape == (4, 6, 6, 1, 8, 16)


def test_others_than_bytes_and_of_no_phases_are_declined() -> None:
    assert INTEGER_WINOGRAD.accepts(CONV, HASWELL)
    assert not INTEGER_WINOGRAD.accepts(replace(CONV, types=U8S16), HASWELL)
    assert not accepts(ConvWorkload(1, 3, 14, 14, 48, (3, 3), types=U8S8), HASWELL)
    assert not accepts(replace(CONV, groups=2), HASWELL)


def test_winograd_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert forbids(CONV, CONFIG) is None
    monkeypatch.setenv(TILE_LIMIT, "0")
    assert not accepts(CONV, HASWELL)
    assert forbids(CONV, CONFIG) == "TVM_NEOCPU_WINOGRAD_TILE is 0"


def test_the_cap_is_about_precision_and_integers_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TILE_LIMIT, "2")
    assert allowed_tiles(CONV) == (2, 3, 4)


@pytest.mark.parametrize("cpu", [HASWELL, ZEN_4], ids=lambda cpu: cpu.name)
def test_every_register_tile_fits_the_cpu(cpu: Cpu) -> None:
    """vpmaddwd needs a register for its product, vpdpwssd none."""
    unit, temporaries = cpu.unit("int32"), cpu.dot_of(2).temporaries
    found = space(CONV, cpu)
    assert found
    for config in found:
        assert misfit(CONV, config) is None and config.ic_bn % 2 == 0
        pixels = config.reg_m * config.reg_n
        assert unit.holds_tile(pixels, unit.registers_of(config.oc_bn), 1 + temporaries)
