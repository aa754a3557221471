"""The precision of Winograd by kernel and tile size, and the option that caps it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import te

from tvm_neocpu.core.cpu import AVX512, Cpu
from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.space import (
    TILE_LIMIT,
    accepts,
    space,
    tiles_allowed,
)
from tvm_neocpu.topi.conv2d_winograd.template import PAD, compute, pack_weight, packed_shape
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.schedule import prologue
from tvm_neocpu.topi.schedule_function import schedule_blocks

Doubles = npt.NDArray[np.float64]
CHANNELS, FILTERS, SIDE = 512, 16, 12
CONV = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (3, 3), padding=(1, 1, 1, 1))
ROW = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (1, 7), padding=(0, 3, 0, 3))
FIVE = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (5, 5), padding=(2, 2, 2, 2))
STRIDED = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (3, 3), (2, 2), (1, 1, 1, 1))
STEM = ConvWorkload(1, 3, SIDE, SIDE, FILTERS, (7, 7), (2, 2), (3, 3, 3, 3))
SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)


def largest_error(conv: ConvWorkload, tile: int) -> float:
    """Of the template on unit-variance data, over the largest output."""
    ic_bn = 16 if conv.in_channels % 16 == 0 else 0
    config = WinogradConfig(ic_bn, oc_bn=16, tile=tile, reg_n=2, reg_m=2, th_bn=2)
    rng = np.random.default_rng(0)
    x = np.abs(rng.normal(size=(conv.in_channels, SIDE, SIDE))).astype("float32")
    weight = rng.normal(size=conv.weight_shape).astype("float32") / 68
    expected = np.maximum(convolved(x, weight, conv), 0)
    stored = x.reshape(1, -1, ic_bn or 1, SIDE, SIDE).transpose(0, 1, 3, 4, 2)
    stored = stored if ic_bn else x[None]
    no_bias = np.zeros((1, 1, 1, 1, FILTERS), "float32")
    out_shape = (1, 1, conv.out_height, conv.out_width, FILTERS)
    output = tvm.runtime.tensor(np.zeros(out_shape, "float32"))
    tensors = [np.ascontiguousarray(stored), pack_weight(weight, conv, config), no_bias]
    module = tvm.compile(kernel(conv, config), target=parse_target().target)
    module["main"](*map(tvm.runtime.tensor, tensors), output)
    found = output.numpy()[0, 0].transpose(2, 0, 1)
    return float(np.max(np.abs(found - expected)) / np.max(expected))


def convolved(
    x: npt.NDArray[np.float32], weight: npt.NDArray[np.float32], conv: ConvWorkload
) -> Doubles:
    top, left, bottom, right = conv.padding
    padded = np.pad(x.astype("float64"), ((0, 0), (top, bottom), (left, right)))
    total = np.zeros((FILTERS, conv.out_height, conv.out_width))
    for row, column in np.ndindex(*conv.kernel):
        pixels = padded[:, row :: conv.stride[0], column :: conv.stride[1]]
        pixels = pixels[:, : conv.out_height, : conv.out_width]
        total += np.einsum("chw,kc->khw", pixels, weight[:, :, row, column].astype("float64"))
    return total


BOUNDS = [
    pytest.param(CONV, 2, 2e-6, id="F(2x2, 3x3)"),
    pytest.param(CONV, 3, 1e-5, id="F(3x3, 3x3)"),
    pytest.param(CONV, 4, 2e-5, id="F(4x4, 3x3)"),
    pytest.param(CONV, 6, 1e-4, id="F(6x6, 3x3)"),
    pytest.param(ROW, 2, 1e-5, id="F(1x2, 1x7)"),
    pytest.param(ROW, 3, 4e-5, id="F(1x3, 1x7)"),
    pytest.param(FIVE, 2, 2e-5, id="F(2x2, 5x5)"),
    pytest.param(STRIDED, 2, 2e-6, id="F(2x2, 3x3) of stride 2"),
    pytest.param(STRIDED, 4, 2e-5, id="F(4x4, 3x3) of stride 2"),
    pytest.param(STEM, 4, 2e-5, id="F(4x4, 4x4) over phases"),
]


@pytest.mark.parametrize(("conv", "tile", "bound"), BOUNDS)
def test_errors_stay_within_the_stated_bounds(conv: ConvWorkload, tile: int, bound: float) -> None:
    error = largest_error(conv, tile)
    assert error < bound
    assert error > bound / 100, "the bound says nothing"


@pytest.mark.parametrize(
    ("limit", "tiles"), [("0", ()), ("2", (2,)), ("4", (2, 3, 4)), ("6", (2, 3, 4, 6))]
)
def test_an_option_caps_the_tile(
    monkeypatch: pytest.MonkeyPatch, limit: str, tiles: tuple[int, ...]
) -> None:
    monkeypatch.setenv(TILE_LIMIT, limit)
    assert tiles_allowed(CONV) == tiles
    assert accepts(CONV, SKYLAKE) == bool(tiles)


def test_a_cap_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TILE_LIMIT, "four")
    with pytest.raises(ConfigError, match=r"TVM_NEOCPU_WINOGRAD_TILE is a tile size .* 'four'"):
        tiles_allowed(CONV)


def test_the_largest_tile_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TILE_LIMIT, raising=False)
    assert tiles_allowed(CONV) == (2, 3, 4)


@pytest.mark.parametrize(
    ("conv", "tiles"),
    [
        pytest.param(ROW, (2, 3), id="one dimension bears more points"),
        pytest.param(FIVE, (2,), id="5x5"),
        pytest.param(STRIDED, (2, 3, 4), id="stride 2"),
        pytest.param(STEM, (2, 3, 4), id="few channels bear one point more"),
        pytest.param(replace(STRIDED, kernel=(2, 2)), (), id="nothing to save"),
        pytest.param(replace(CONV, kernel=(1, 1)), (), id="1x1"),
        pytest.param(replace(CONV, kernel=(7, 7)), (), id="7x7: too many points"),
        pytest.param(replace(CONV, height=2, width=2), (2,), id="a tiny image"),
        pytest.param(replace(ROW, height=1), (2, 3), id="a single row"),
    ],
)
def test_tiles_by_kernel(conv: ConvWorkload, tiles: tuple[int, ...]) -> None:
    assert tiles_allowed(conv) == tiles
    assert accepts(conv, SKYLAKE) == bool(tiles)


def test_the_config_says_whether_a_first_convolution_reads_plain_data() -> None:
    conv = replace(STRIDED, in_channels=4)
    blocked, plain = (packed_shape(conv, WinogradConfig(ic_bn, 16, 2, 2)) for ic_bn in (4, 0))
    assert blocked == (1, 5, 5, 1, 4, 16)
    assert plain == (1, 3, 3, 1, 16, 16)


@pytest.mark.parametrize("limit", ["2", "4", "6"])
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("channels", [3, 16, 512])
def test_tiles_offered_have_matrices(
    monkeypatch: pytest.MonkeyPatch, limit: str, taps: int, channels: int
) -> None:
    monkeypatch.setenv(TILE_LIMIT, limit)
    for kernel_shape, stride in product(((1, taps), (taps, taps)), ((1, 1), (2, 2))):
        conv = replace(CONV, in_channels=channels, kernel=kernel_shape, stride=stride)
        assert all(packed_shape(conv, config) for config in space(conv, SKYLAKE))


@pytest.mark.parametrize(
    ("side", "by_channels", "copied"),
    [
        pytest.param(16, True, False, id="chunks of channels would wait for a copy"),
        pytest.param(16, False, False, id="small images are close anyway"),
        pytest.param(256, False, True, id="a copy reads large ones in order"),
    ],
)
def test_images_are_padded_in_a_copy_where_that_pays(
    side: int, by_channels: bool, copied: bool
) -> None:
    conv = ConvWorkload(1, 16, side, side, 16, (3, 3), padding=(1, 1, 1, 1))
    config = WinogradConfig(16, 16, 4, 4, th_bn=side // 4, parallel_oc=by_channels)
    assert (PAD in kernel(conv, config).script()) is copied


def test_computed_images_are_computed_once() -> None:
    """Tiles overlap: without the copy each would compute its share of a prologue again."""
    conv = ConvWorkload(1, 16, 16, 16, 16, (3, 3), padding=(1, 1, 1, 1))
    config = WinogradConfig(16, 16, 4, 4, th_bn=4, parallel_oc=True)
    x = te.placeholder((1, 1, 16, 16, 16), name="x")
    w = te.placeholder(packed_shape(conv, config), name="w")
    data = prologue.compute([x], [("relax.nn.relu", None)])
    scheduled = schedule_blocks(te.create_prim_func([x, w, compute(data, w, conv, config)]))
    assert PAD in scheduled.script()
