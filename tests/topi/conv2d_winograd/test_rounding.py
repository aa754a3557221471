"""The noise of rounded transformed weights is what the matrices say."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.core.types import FP16_WEIGHTS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.rounding import noise_growth, tile_growth, weight_scales
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import TiledConv

CONVS = {
    "3x3": ConvWorkload(1, 64, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1), types=FP16_WEIGHTS),
    "stride 2": ConvWorkload(1, 64, 14, 14, 64, (3, 3), (2, 2), (1, 1, 1, 1), types=FP16_WEIGHTS),
    "1x7": ConvWorkload(1, 64, 14, 14, 64, (1, 7), padding=(0, 3, 0, 3), types=FP16_WEIGHTS),
}


@pytest.mark.parametrize(
    ("name", "tile"), [("3x3", 2), ("3x3", 4), ("stride 2", 2), ("stride 2", 4), ("1x7", 2)]
)
def test_growth_is_that_of_random_data(name: str, tile: int) -> None:
    conv = CONVS[name]
    down, across = TiledConv(conv, tile, plain=False).matrices
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(2000, *conv.kernel)).astype("float32")
    data = rng.normal(size=(2000, down.pixels, across.pixels))
    a, g, b = (
        [np.array([[float(x) for x in row] for row in matrix]) for matrix in pair]
        for pair in ((down.a, across.a), (down.g, across.g), (down.b, across.b))
    )
    kernels = np.einsum("ur,nrs,vs->nuv", g[0], weight, g[1])
    pixels = np.einsum("uy,nyx,vx->nuv", b[0], data, b[1])

    def output(kernels: np.ndarray) -> np.ndarray:
        return np.einsum("iu,nuv,jv->nij", a[0], kernels * pixels, a[1])

    def power(noise: np.ndarray) -> float:
        return float(np.mean(np.square(noise)))

    lost = power(output(kernels.astype("float16")) - output(kernels))
    # Each output of a direct convolution sums taps; their roundings add up.
    taps = power(weight.astype("float16") - weight) * weight[0].size
    assert tile_growth(conv, tile) == pytest.approx(lost / taps, rel=0.2)


def test_the_worst_tile_counts() -> None:
    conv = CONVS["3x3"]
    assert 2.5 < tile_growth(conv, 2) < 3.0 and 20 < tile_growth(conv, 4) < 25
    assert noise_growth(conv) == 1 + tile_growth(conv, 4)


def test_scales_bound_transformed_weights() -> None:
    conv = CONVS["3x3"]
    small, large = weight_scales(conv)
    weight = np.random.default_rng(1).uniform(-1, 1, size=(500, 3, 3))
    sizes = []
    for tile in (2, 3, 4):
        g = np.array(
            [[float(x) for x in row] for row in TiledConv(conv, tile, False).matrices[0].g]
        )
        transformed = np.einsum("ur,nrs,vs->nuv", g, weight, g)
        assert np.abs(transformed).max() <= large
        rms = np.sqrt(np.mean(np.square(transformed), axis=0)) / np.sqrt(np.mean(weight**2))
        sizes.append(rms.min())
    assert min(sizes) == pytest.approx(small, rel=0.2)


def test_no_tile_no_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NEOCPU_WINOGRAD_TILE", "0")
    assert noise_growth(CONVS["3x3"]) == 1 and weight_scales(CONVS["3x3"]) == (1.0, 1.0)
