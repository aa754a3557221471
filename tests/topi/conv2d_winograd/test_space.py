"""The Winograd template's space, its guard, and the option that caps its tiles."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import (
    FLAT,
    WinogradConfig,
    WinogradGeometry,
)
from tvm_neocpu.topi.conv2d_winograd.misfit import misfit
from tvm_neocpu.topi.conv2d_winograd.space import (
    TILE_LIMIT,
    accepts,
    allowed_tiles,
    flat_tiles,
    forbids,
    space,
    tile_limit,
)
from tvm_neocpu.topi.cost.ranking import ranked

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
CORTEX = Cpu("cortex-a72", NEON, cores=1)
CONV = ConvWorkload(1, 512, 12, 12, 16, (3, 3), padding=(1, 1, 1, 1))
ROW = ConvWorkload(1, 512, 12, 12, 16, (1, 7), padding=(0, 3, 0, 3))
FIVE = ConvWorkload(1, 512, 12, 12, 16, (5, 5), padding=(2, 2, 2, 2))
STRIDED = ConvWorkload(1, 512, 12, 12, 16, (3, 3), (2, 2), (1, 1, 1, 1))
STEM = ConvWorkload(1, 3, 12, 12, 16, (7, 7), (2, 2), (3, 3, 3, 3))
FEW_TILES = ConvWorkload(1, 128, 28, 28, 128, (3, 3), padding=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("limit", "tiles"), [("0", ()), ("2", (2,)), ("4", (2, 3, 4)), ("6", (2, 3, 4, 6))]
)
def test_an_option_caps_the_tile(
    monkeypatch: pytest.MonkeyPatch, limit: str, tiles: tuple[int, ...]
) -> None:
    monkeypatch.setenv(TILE_LIMIT, limit)
    assert allowed_tiles(CONV) == tiles
    assert accepts(CONV, SKYLAKE) == bool(tiles)


@pytest.mark.parametrize("text", ["four", "x", "8", "5", "1", "-2", ""])
def test_a_cap_is_the_size_of_a_tile(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(TILE_LIMIT, text)
    complaint = rf"TVM_NEOCPU_WINOGRAD_TILE is a tile size .* unlike '{text}'"
    for asked in (tile_limit, lambda: allowed_tiles(CONV), lambda: accepts(CONV, SKYLAKE)):
        with pytest.raises(ConfigError, match=complaint):
            asked()


def test_the_largest_tile_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TILE_LIMIT, raising=False)
    assert allowed_tiles(CONV) == (2, 3, 4)


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
    assert allowed_tiles(conv) == tiles
    assert accepts(conv, SKYLAKE) == bool(tiles)


@pytest.mark.parametrize("limit", ["2", "4", "6"])
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("channels", [3, 16, 512])
def test_tiles_offered_have_matrices(
    monkeypatch: pytest.MonkeyPatch, limit: str, taps: int, channels: int
) -> None:
    monkeypatch.setenv(TILE_LIMIT, limit)
    for kernel_shape, stride in product(((1, taps), (taps, taps)), ((1, 1), (2, 2))):
        conv = replace(CONV, in_channels=channels, kernel=kernel_shape, stride=stride)
        assert all(WinogradGeometry(conv, config).packed_shape for config in space(conv, SKYLAKE))


def test_a_config_from_a_log_is_capped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    six = WinogradConfig(16, 16, 6, 2)
    monkeypatch.delenv(TILE_LIMIT, raising=False)
    assert misfit(CONV, six) is None
    assert forbids(CONV, replace(six, tile=4)) is None
    assert forbids(CONV, six) == "tiles of 6 are too large here (TVM_NEOCPU_WINOGRAD_TILE is 4)"
    monkeypatch.setenv(TILE_LIMIT, "6")
    assert forbids(CONV, six) is None
    monkeypatch.setenv(TILE_LIMIT, "0")
    assert all(forbids(CONV, replace(six, tile=tile)) for tile in (2, 3, 4, 6))


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
def test_every_register_tile_fits_the_cpu(cpu: Cpu) -> None:
    unit = cpu.unit("float32")
    for conv in (replace(CONV, out_channels=96), STEM):
        found = space(conv, cpu)
        assert max(config.oc_bn for config in found) <= 4 * unit.lanes
        for config in found:
            pixels = max(config.reg_m, 1) * config.reg_n
            assert unit.holds_tile(pixels, unit.registers_of(config.oc_bn))
            assert misfit(conv, config) is None and forbids(conv, config) is None


def test_a_first_convolution_reads_plain_data() -> None:
    assert {config.ic_bn for config in space(STEM, SKYLAKE)} == {0}
    assert 0 not in {config.ic_bn for config in space(CONV, SKYLAKE)}


def test_rows_that_no_register_tile_divides_are_one_axis() -> None:
    """28x28 outputs are 49 tiles: nine times 5 and once 4. Rows of 7 would be computed as 8."""
    flat = {
        (c.reg_n, c.th_bn) for c in space(FEW_TILES, HASWELL) if c.reg_m == FLAT and c.oc_bn == 16
    }
    assert (5, 7) in flat
    assert ranked(FEW_TILES, HASWELL)[0].config.reg_m == FLAT


def test_few_tiles_of_an_image_are_one_axis_with_those_of_others() -> None:
    """Two rows of tiles an image; all splits of a batch of eight in equal sets."""
    conv = ConvWorkload(8, 512, 7, 7, 512, (3, 3), padding=(1, 1, 1, 1))
    pair = replace(SKYLAKE, cores=2)
    found = [config for config in space(conv, pair) if config.tile == 4 and config.reg_m == FLAT]
    assert {config.th_bn for config in found} == {2, 4, 8, 16}
    ways = {(c.parallel_oc, c.oc_chunks) for c in found if c.th_bn == 16}
    assert ways == {(False, 0), (True, 0), (False, 2)}
    assert ranked(conv, pair)[0].config.th_bn == 16
    alone = space(replace(conv, batch=1), pair)
    assert max(config.th_bn for config in alone if config.tile == 4) == 2


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
@pytest.mark.parametrize("th_bn", [1, 7])
def test_one_axis_leaves_registers_free(cpu: Cpu, th_bn: int) -> None:
    unit = cpu.unit("float32")
    for vectors in (1, 2, 4):
        for tiles in flat_tiles(FEW_TILES, 4, th_bn, vectors, cpu):
            assert unit.tile_registers(tiles, vectors) <= unit.registers - 2


GROUPED = ConvWorkload(1, 128, 28, 28, 128, (3, 3), padding=(1, 1, 1, 1), groups=16)


def test_groups_are_register_tiles_in_blocks_of_whole_groups() -> None:
    assert accepts(GROUPED, HASWELL) and accepts(replace(GROUPED, groups=4), SKYLAKE)
    found = space(GROUPED, HASWELL)
    assert {config.ic_bn for config in found} == {config.oc_bn for config in found}
    assert {config.oc_bn for config in found} == {8, 16, 32, 64}
    assert all(misfit(GROUPED, config) is None for config in found)


@pytest.mark.parametrize(
    ("conv", "cpu"),
    [
        pytest.param(replace(GROUPED, groups=32), HASWELL, id="4 channels are no vector"),
        pytest.param(GROUPED, SKYLAKE, id="8 channels are none of AVX-512"),
        pytest.param(replace(GROUPED, groups=128), HASWELL, id="depthwise"),
    ],
)
def test_groups_that_fill_no_vector(conv: ConvWorkload, cpu: Cpu) -> None:
    assert not accepts(conv, cpu)


@pytest.mark.parametrize(
    ("cpu", "blocks_in", "blocks_out"),
    [
        pytest.param(HASWELL, {4, 8, 16, 32}, {4, 8, 16}, id="avx2"),
        pytest.param(SKYLAKE, {4, 8, 16, 32, 64}, {4, 8, 16, 32, 64}, id="avx512"),
    ],
)
def test_large_groups_have_the_blocks_of_one(
    cpu: Cpu, blocks_in: set[int], blocks_out: set[int]
) -> None:
    """ResNeSt's two halves; each block of a group reads what all of them share."""
    halves = ConvWorkload(1, 256, 14, 14, 512, (3, 3), padding=(1, 1, 1, 1), groups=2)
    assert accepts(halves, cpu)
    found = space(halves, cpu)
    assert {config.ic_bn for config in found} == blocks_in
    assert {config.oc_bn for config in found} == blocks_out
    assert all(misfit(halves, config) is None for config in found)
    assert not any(WinogradGeometry(halves, config).packs_by_block for config in found)


def test_large_groups_need_not_fill_their_last_vector() -> None:
    """RegNetX-8GF has groups of 120 channels: seven and a half vectors of AVX-512."""
    conv = ConvWorkload(1, 720, 14, 14, 720, (3, 3), padding=(1, 1, 1, 1), groups=6)
    assert accepts(conv, SKYLAKE) and 120 % 16
    assert not accepts(replace(conv, in_channels=240, out_channels=240), SKYLAKE)  # of 40


@pytest.mark.parametrize(("ic_bn", "oc_bn"), [(0, 8), (12, 8), (8, 12), (3, 8)])
def test_blocks_hold_whole_groups_or_are_part_of_one(ic_bn: int, oc_bn: int) -> None:
    assert "no whole groups, nor parts" in str(misfit(GROUPED, WinogradConfig(ic_bn, oc_bn, 4, 7)))
    assert misfit(GROUPED, WinogradConfig(4, 4, 4, 7)) is None


@pytest.mark.parametrize(
    ("conv", "cpu", "chunks"),
    [
        pytest.param(FEW_TILES, SKYLAKE, {0, 2}, id="a chunk for each core"),
        pytest.param(FEW_TILES, HASWELL, {0, 4}, id="of four"),
        pytest.param(FEW_TILES, CORTEX, {0}, id="one core transforms once"),
        pytest.param(STEM, SKYLAKE, {0}, id="plain data"),
        pytest.param(replace(FEW_TILES, groups=4), SKYLAKE, {0}, id="groups"),
    ],
)
def test_each_core_may_transform_the_input_for_itself(
    conv: ConvWorkload, cpu: Cpu, chunks: set[int]
) -> None:
    found = space(conv, cpu)
    assert {config.oc_chunks for config in found} == chunks
    assert all(misfit(conv, config) is None for config in found)
