"""Which tiles bf16 allows: those whose noise power grows little."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.topi.conv2d_winograd_bf16.geometry import Bf16WinogradConfig
from tvm_neocpu.topi.conv2d_winograd_bf16.space import (
    accepts,
    allowed_tiles,
    forbids,
    noise_growth,
    space,
    tile_growth,
)

ZEN_4 = Cpu("znver4", AVX512, 1, dots=(VDPBF16PS,))
CONV = ConvWorkload(1, 64, 28, 28, 48, (3, 3), padding=(1, 1, 1, 1), types=BF16_WEIGHTS)
STRIDED = ConvWorkload(1, 64, 28, 28, 48, (3, 3), (2, 2), (1, 1, 1, 1), types=BF16_WEIGHTS)
STEM = ConvWorkload(1, 3, 224, 224, 64, (7, 7), (2, 2), (3, 3, 3, 3), types=BF16_WEIGHTS)
LONG = ConvWorkload(1, 64, 17, 17, 48, (1, 7), padding=(0, 3, 0, 3), types=BF16_WEIGHTS)


@pytest.mark.parametrize(
    ("conv", "tiles"),
    [(CONV, (2, 3)), (STRIDED, (2, 3, 4)), (STEM, (2,)), (LONG, ())],
    ids=["3x3", "stride 2", "stem", "1x7"],
)
def test_tiles_whose_noise_grows_little(conv: ConvWorkload, tiles: tuple[int, ...]) -> None:
    assert allowed_tiles(conv) == tiles
    assert accepts(conv, ZEN_4) == bool(tiles)
    assert {config.tile for config in space(conv, ZEN_4)} == set(tiles)


def test_growth() -> None:
    assert tile_growth(CONV, 2) == pytest.approx(2.8, rel=0.01)
    assert tile_growth(CONV, 3) == pytest.approx(6.9, rel=0.01)
    assert noise_growth(CONV) == 1 + tile_growth(CONV, 3)
    assert noise_growth(LONG) == 1


def test_the_users_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    three = Bf16WinogradConfig(ic_bn=16, oc_bn=16, tile=3, reg_n=5)
    assert forbids(CONV, three) is None
    monkeypatch.setenv(TILE_LIMIT, "2")
    assert allowed_tiles(CONV) == (2,)
    assert "too coarse in bf16" in str(forbids(CONV, three))
    monkeypatch.setenv(TILE_LIMIT, "0")
    assert not accepts(CONV, ZEN_4)


def test_blocks_are_whole_words() -> None:
    assert all(config.ic_bn % 2 == 0 for config in space(CONV, ZEN_4))
