"""What a config of the direct template means for a convolution, and which configs mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import (
    ConvConfig,
    DirectGeometry,
    computed_columns,
    misfit,
)

CONV = ConvWorkload(2, 16, 14, 17, 48, (3, 3), padding=(1, 1, 1, 1))
CONFIG = ConvConfig(ic_bn=8, oc_bn=16, reg_n=9, reg_m=3, oh_bn=2)


@pytest.mark.parametrize(
    ("width", "reg_n", "columns"),
    [
        (14, 7, 14),  # divided
        (17, 9, 17),  # a pair, 9 and 8
        (19, 10, 19),
        (13, 14, 14),  # one tile overhangs
        (35, 12, 36),  # three tiles overhang
    ],
)
def test_a_pair_of_tiles_computes_no_column_in_vain(width: int, reg_n: int, columns: int) -> None:
    assert computed_columns(width, reg_n) == columns


def test_tiles_chunks_and_what_they_read() -> None:
    geometry = DirectGeometry(CONV, CONFIG)
    assert geometry.tiles == (5, 2)
    assert (geometry.rows, geometry.columns) == (15, 17)
    # One row of tiles a chunk: two do not divide five.
    assert (geometry.chunk_rows, geometry.row_chunks, geometry.chunks) == (1, 5, 10)
    assert geometry.padded_extent == (17, 19)
    assert geometry.is_padded
    assert DirectGeometry(CONV, replace(CONFIG, parallel_oc=True)).chunks == 30


def test_blocks_of_a_group_read_the_same_input() -> None:
    grouped = DirectGeometry(replace(CONV, groups=2), replace(CONFIG, oc_bn=8))
    assert (grouped.readers, grouped.pads_by_block) == (3, False)
    alone = DirectGeometry(replace(CONV, groups=2), replace(CONFIG, oc_bn=24))
    assert (alone.readers, alone.pads_by_block) == (1, True)
    assert not DirectGeometry(CONV, replace(CONFIG, oc_bn=48)).pads_by_block


def test_nothing_is_padded_where_tiles_divide_an_unpadded_output() -> None:
    conv = replace(CONV, padding=(0, 0, 0, 0))
    assert not DirectGeometry(conv, replace(CONFIG, reg_n=5)).is_padded
    assert DirectGeometry(conv, replace(CONFIG, reg_n=4)).is_padded
    strided = replace(conv, stride=(2, 1), dilation=(1, 2))
    assert DirectGeometry(strided, replace(CONFIG, reg_n=13)).padded_extent == (13, 17)


@pytest.mark.parametrize(
    ("conv", "config", "shape"),
    [
        (CONV, CONFIG, (3, 2, 3, 3, 8, 16)),
        (CONV, replace(CONFIG, ic_bn=0), (3, 1, 3, 3, 16, 16)),
        (CONV, replace(CONFIG, oc_bn=12, oc_lanes=16), (4, 2, 3, 3, 8, 16)),
        (replace(CONV, groups=2), CONFIG, (3, 1, 3, 3, 8, 16)),
    ],
    ids=["blocked", "plain", "filled vectors", "groups"],
)
def test_the_packed_weight(conv: ConvWorkload, config: ConvConfig, shape: tuple[int, ...]) -> None:
    assert DirectGeometry(conv, config).packed_shape == shape


@pytest.mark.parametrize(
    ("conv", "config", "reason"),
    [
        (CONV, replace(CONFIG, ic_bn=3), "ic_bn 3 does not divide 16 channels"),
        (CONV, replace(CONFIG, ic_bn=32), "ic_bn 32 does not divide 16 channels"),
        (CONV, replace(CONFIG, oc_bn=32), "oc_bn 32 does not divide 48 channels"),
        (CONV, replace(CONFIG, oc_bn=0), "oc_bn 0 does not divide 48 channels"),
        (replace(CONV, groups=4), replace(CONFIG, ic_bn=6), "ic_bn 6 does not divide 4 channels"),
        (replace(CONV, groups=4), CONFIG, "oc_bn 16 does not divide 12 channels"),
        (replace(CONV, groups=2), replace(CONFIG, ic_bn=0), "no grouped convolution does"),
        (CONV, replace(CONFIG, oc_lanes=8), "8 lanes are fewer than oc_bn"),
        (CONV, replace(CONFIG, reg_n=0), "tiles are empty"),
        (CONV, replace(CONFIG, reg_m=0), "tiles are empty"),
        (CONV, replace(CONFIG, oh_bn=0), "tiles are empty"),
    ],
)
def test_configs_that_do_not_fit(conv: ConvWorkload, config: ConvConfig, reason: str) -> None:
    found = misfit(conv, config)
    assert found is not None and reason in found


@pytest.mark.parametrize(
    "config",
    [CONFIG, replace(CONFIG, ic_bn=0), replace(CONFIG, oc_lanes=32), replace(CONFIG, oh_bn=99)],
    ids=["blocked", "plain", "filled vectors", "more rows than there are"],
)
def test_configs_that_fit(config: ConvConfig) -> None:
    assert misfit(CONV, config) is None


GATE = ConvWorkload(1, 960, 1, 1, 240, (1, 1))
ONE, TWO = (Cpu("znver3", AVX2, cores=cores) for cores in (1, 2))


@pytest.mark.parametrize(
    ("oc_bn", "parallel_oc", "cpu", "streams"),
    [
        (8, False, ONE, 5),
        (16, False, ONE, 3),  # 15 blocks of two vectors
        (24, False, ONE, 2),  # 10 blocks of three: 5 would take 15 accumulators and their weights
        (40, False, ONE, 1),  # 2 x 5 vectors are too many for 16 registers
        (40, False, Cpu("skylake-avx512", AVX512, cores=1), 3),
        (30, False, ONE, 1),  # 4 vectors of 30 channels
        (8, True, TWO, 5),  # 30 blocks are 6 chunks
        (24, True, TWO, 1),  # 5 chunks of 2 blocks: 6 blocks for one core, 4 for the other
    ],
)
def test_blocks_that_share_a_tile_of_one_pixel(
    oc_bn: int, parallel_oc: bool, cpu: Cpu, streams: int
) -> None:
    config = ConvConfig(ic_bn=16, oc_bn=oc_bn, reg_n=1, parallel_oc=parallel_oc)
    assert DirectGeometry(GATE, config).streams(cpu) == streams


@pytest.mark.parametrize(
    "conv",
    [
        replace(GATE, batch=2),
        replace(GATE, width=2),
        replace(GATE, in_channels=64),  # 60 KiB
        replace(GATE, groups=2),
        replace(GATE, types=uniform("float64")),
    ],
)
def test_other_layers_read_one_stream(conv: ConvWorkload) -> None:
    config = ConvConfig(ic_bn=16, oc_bn=8, reg_n=1)
    assert DirectGeometry(conv, config).streams(ONE) == 1


@pytest.mark.parametrize(
    ("changed", "config", "apart"),
    [
        pytest.param({}, ConvConfig(8, 16, 7, parallel_oc=True), True, id="chunks of channels"),
        pytest.param({}, ConvConfig(8, 16, 7), False, id="chunks of rows copy their own"),
        pytest.param({}, ConvConfig(8, 48, 7, parallel_oc=True), False, id="rows read once"),
        pytest.param({"padding": (1, 0, 0, 0)}, ConvConfig(8, 16, 7, parallel_oc=True), False),
        pytest.param({"groups": 2}, ConvConfig(8, 24, 7, parallel_oc=True), False, id="of groups"),
    ],
)
def test_what_is_computed_of_the_data_may_be_a_pass_of_its_own(
    changed: dict[str, object], config: ConvConfig, apart: bool
) -> None:
    """Where there is a padded copy anyway, its pass computes the data too."""
    conv = replace(ConvWorkload(1, 16, 14, 14, 48, (1, 1)), **changed)
    assert DirectGeometry(conv, config).copies_apart == apart
