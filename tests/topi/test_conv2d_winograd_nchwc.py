"""The precision of every Winograd tile size, and the option that caps it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import tvm

from tvm_neocpu.core.config import WinogradConfig
from tvm_neocpu.core.cpu import AVX512, Cpu
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.target import parse_target
from tvm_neocpu.topi.conv2d_winograd_nchwc import pack_weight
from tvm_neocpu.topi.conv2d_winograd_nchwc_space import TILE_LIMIT, accepts, tiles_allowed
from tvm_neocpu.topi.kernel import kernel

Doubles = npt.NDArray[np.float64]
CHANNELS, FILTERS, SIDE = 512, 16, 12
CONV = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (3, 3), padding=(1, 1, 1, 1))
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)


def largest_error(tile: int) -> float:
    """Of the template on unit-variance data, over the largest output."""
    config = WinogradConfig(ic_bn=16, oc_bn=16, tile=tile, reg_n=2, reg_m=2, th_bn=2)
    rng = np.random.default_rng(0)
    x = np.abs(rng.normal(size=(CHANNELS, SIDE, SIDE))).astype("float32")
    weight = rng.normal(size=(FILTERS, CHANNELS, 3, 3)).astype("float32") / 68
    expected = np.maximum(convolved(x, weight), 0)
    stored = x.reshape(1, CHANNELS // 16, 16, SIDE, SIDE).transpose(0, 1, 3, 4, 2)
    no_bias = np.zeros((1, 1, 1, 1, FILTERS), "float32")
    output = tvm.runtime.tensor(np.zeros((1, 1, SIDE, SIDE, FILTERS), "float32"))
    tensors = [np.ascontiguousarray(stored), pack_weight(weight, CONV, config), no_bias]
    module = tvm.compile(kernel(CONV, config), target=parse_target().target)
    module["main"](*map(tvm.runtime.tensor, tensors), output)
    found = output.numpy()[0, 0].transpose(2, 0, 1)
    return float(np.max(np.abs(found - expected)) / np.max(expected))


def convolved(x: npt.NDArray[np.float32], weight: npt.NDArray[np.float32]) -> Doubles:
    padded = np.pad(x.astype("float64"), ((0, 0), (1, 1), (1, 1)))
    total = np.zeros((FILTERS, SIDE, SIDE))
    for row, column in np.ndindex(3, 3):
        pixels = padded[:, row : row + SIDE, column : column + SIDE]
        total += np.einsum("chw,kc->khw", pixels, weight[:, :, row, column].astype("float64"))
    return total


@pytest.mark.parametrize(("tile", "bound"), [(2, 2e-6), (4, 2e-5), (6, 1e-4)])
def test_errors_stay_within_the_stated_bounds(tile: int, bound: float) -> None:
    error = largest_error(tile)
    assert error < bound
    assert error > bound / 100, "the bound says nothing"


@pytest.mark.parametrize(
    ("limit", "tiles"), [("0", ()), ("2", (2,)), ("4", (2, 4)), ("6", (2, 4, 6))]
)
def test_an_option_caps_the_tile(
    monkeypatch: pytest.MonkeyPatch, limit: str, tiles: tuple[int, ...]
) -> None:
    monkeypatch.setenv(TILE_LIMIT, limit)
    assert tiles_allowed(CONV) == tiles
    assert accepts(CONV, SKYLAKE) == bool(tiles)


def test_the_largest_tile_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TILE_LIMIT, raising=False)
    assert tiles_allowed(CONV) == (2, 4)
