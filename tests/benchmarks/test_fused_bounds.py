"""What a group could gain at most, as a script: the bands that it times."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "groups" / "fused_bounds.py"
WIDE = ConvWorkload(1, 64, 224, 224, 64, (3, 3), padding=(1, 1, 1, 1))
WINOGRAD = WinogradConfig(8, 16, tile=4, reg_n=3, reg_m=2, th_bn=2)


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_a_band_has_the_rows_and_their_halo(script: dict[str, Any]) -> None:
    band_of: Callable[..., ConvWorkload] = script["band_of"]
    whole = band_of(WIDE, WINOGRAD, 8, 1 << 30)
    assert (whole.height, whole.width, whole.padding) == (10, 224, (0, 1, 0, 1))
    assert (whole.out_height, whole.out_width) == (8, 224)


def test_a_band_that_does_not_fit_has_whole_register_tiles_across(script: dict[str, Any]) -> None:
    narrow: ConvWorkload = script["band_of"](WIDE, WINOGRAD, 8, 350 * 1024)
    assert narrow.out_width % (WINOGRAD.reg_n * WINOGRAD.tile) == 0
    assert 0 < narrow.out_width < 224
    # Rows and columns of the halo come on top.
    assert (8 + 10) * narrow.out_width * 64 * 4 <= 350 * 1024
    tiny: ConvWorkload = script["band_of"](WIDE, WINOGRAD, 8, 1)
    assert tiny.out_width == WINOGRAD.reg_n * WINOGRAD.tile


def test_chunks_of_pixels_end_with_a_band(script: dict[str, Any]) -> None:
    band = ConvWorkload(1, 64, 8, 56, 256, (1, 1))
    long, short = Im2colConfig(16, 32, 2, tiles=392), Im2colConfig(16, 32, 2, tiles=50)
    assert script["within_band"](long, band).tiles == 8 * 56 // 2
    assert script["within_band"](short, band) == short
    assert script["within_band"](WINOGRAD, band) is WINOGRAD


def test_the_chains_are_layers_that_follow_each_other(script: dict[str, Any]) -> None:
    for chain in script["CHAINS"]:
        ends = [layer.split()[0].split("->") for layer in chain.layers]
        for (_, channels), (reads, _) in pairwise(ends):
            assert reads.split("x")[0] == channels


def test_a_bands_time_counts_for_the_whole_image(script: dict[str, Any]) -> None:
    target = parse_target("llvm")
    conv = ConvWorkload(1, 16, 32, 16, 16, (3, 3), padding=(1, 1, 1, 1))
    band = script["HotBand"](conv, ConvConfig(8, 8, reg_n=4), target, 8)
    assert band.band.out_shape == (1, 16, 8, 16)
    # A run of the bands takes a second: 8 of 32 rows on each core.
    band._timer = lambda *_: SimpleNamespace(mean=1.0)
    assert band.seconds() == pytest.approx(4 / target.cpu.cores, rel=1e-4)
