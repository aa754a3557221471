"""The loops that a config of the direct template asks for: NeoCPU's Algorithm 1, as scheduled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nests import SKYLAKE, nest
from samples import HOST, check
from template_workloads import epilogues
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_direct.template import PAD
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule_function import schedule_blocks

CONV = ConvWorkload(1, 16, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1))
TILE = ConvConfig(ic_bn=8, oc_bn=16, reg_n=7, unroll_ker=True, reg_m=2, oh_bn=7)
PRODUCT = "conv2d_acc_update"

# Chunks; channel blocks, rows and columns of tiles; ic.outer, kernel rows and columns, ic.inner;
# rows, columns and channels of a tile.
CASES = [
    (TILE, "4, 7, 2, 2, 3, unroll 3, 8, unroll 2, unroll 7, vector 16"),
    (
        replace(TILE, oh_bn=1),
        "parallel 7, 4, 2, 2, 3, unroll 3, 8, unroll 2, unroll 7, vector 16",
    ),
    (
        replace(TILE, parallel_oc=True),
        "parallel 4, 7, 2, 2, 3, unroll 3, 8, unroll 2, unroll 7, vector 16",
    ),
    (replace(TILE, unroll_ker=False), "4, 7, 2, 2, 3, 3, 8, unroll 2, unroll 7, vector 16"),
    (
        replace(TILE, ic_bn=16, oc_bn=48, reg_m=1, oh_bn=1, reg_n=14),
        "parallel 14, 3, unroll 3, 16, unroll 14, unroll 3, vector 16",
    ),
]


@pytest.mark.parametrize(("config", "expected"), CASES)
def test_loops(config: ConvConfig, expected: str) -> None:
    conv = replace(CONV, out_channels=48) if config.oc_bn == 48 else CONV
    assert nest(conv, config, PRODUCT) == expected


def test_a_pair_of_tiles_is_written_out() -> None:
    """Seventeen columns in tiles of nine: the second tile's loop knows that it has eight."""
    conv = replace(CONV, height=17, width=17)
    config = ConvConfig(ic_bn=8, oc_bn=16, reg_n=9, oh_bn=1)
    expected = "parallel 17, 4, unroll 2, 2, 3, unroll 3, 8, unroll 9, vector 16"
    assert nest(conv, config, PRODUCT) == expected
    sch = Schedule(schedule_blocks(unscheduled(conv, config), SKYLAKE))
    assert steps.output_shape(sch, sch.get_sblock(PRODUCT))[3] == 17


def test_blocks_of_one_pixel_are_streams() -> None:
    """Chunks of five blocks of channels; every step multiplies a channel with all five."""
    conv, cpu = ConvWorkload(1, 960, 1, 1, 240, (1, 1)), Cpu("znver3", AVX2, cores=2)
    config = ConvConfig(ic_bn=16, oc_bn=8, reg_n=1, parallel_oc=True)
    assert nest(conv, config, PRODUCT, cpu) == "parallel 6, 60, 16, unroll 5, vector 8"
    serial = replace(config, parallel_oc=False)
    assert nest(conv, serial, PRODUCT, cpu) == "6, 60, 16, unroll 5, vector 8"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # The rows of all seven tiles of a chunk, for one block of channels.
        (TILE, "4, 16, 16, vector 8"),
        (replace(TILE, oh_bn=1), "parallel 7, 4, 4, 16, vector 8"),
        (replace(TILE, oh_bn=1, parallel_oc=True), "parallel 28, 4, 16, vector 8"),
        # Two blocks of a group read the same channels.
        (replace(TILE, oc_bn=8, oh_bn=1), "parallel 7, 4, 4, 16, vector 8"),
    ],
)
def test_a_group_that_is_one_block_is_padded_for_it(config: ConvConfig, expected: str) -> None:
    conv = replace(CONV, in_channels=32, groups=4)
    assert nest(conv, config, "conv2d_pad") == expected


def test_an_odd_block_runs_in_the_vectors_that_its_type_allows() -> None:
    """No statement takes more than eight registers: 24 lanes are three vectors of eight.

    With dead lanes each takes one: what is stored are whole registers and a part.
    """
    conv, config = replace(CONV, out_channels=48), replace(TILE, oc_bn=24, oc_lanes=32)
    narrow = Cpu("haswell", AVX2, cores=2)
    assert nest(conv, config, PRODUCT, narrow).endswith("unroll 7, unroll 4, vector 8")
    doubles = replace(conv, types=uniform("float64"))
    assert nest(doubles, replace(config, oc_lanes=0), PRODUCT).endswith("unroll 3, vector 8")


GROUPS = ConvWorkload(1, 48, 9, 7, 96, (3, 3), (2, 1), (1, 1, 1, 1), groups=3)
NARROW = ConvWorkload(2, 32, 5, 6, 32, (1, 1), groups=4)


@pytest.mark.parametrize("epilogue", ["none", "residual", "gate"])
@pytest.mark.parametrize(
    ("conv", "config"),
    [
        (GROUPS, ConvConfig(48, 96, 7, unroll_ker=False, oh_bn=5, oc_lanes=32)),
        (GROUPS, ConvConfig(48, 16, 7, parallel_oc=True)),
        (GROUPS, ConvConfig(8, 96, 7, reg_m=1, oh_bn=5, parallel_oc=True, oc_lanes=32)),
        # Tiles of 4 and 3 columns; one pixel a tile; no padding.
        (GROUPS, ConvConfig(48, 96, 4, oc_lanes=32)),
        (NARROW, ConvConfig(16, 32, 6, oc_lanes=8)),
        (NARROW, ConvConfig(32, 16, 1, parallel_oc=True, oc_lanes=8)),
    ],
)
def test_blocks_of_several_groups(conv: ConvWorkload, config: ConvConfig, epilogue: str) -> None:
    check(conv, config, HOST.cpu, epilogues(conv)[epilogue])


def test_tiles_write_their_group_into_a_wider_block() -> None:
    config = ConvConfig(48, 96, 7, unroll_ker=False, oh_bn=5, oc_lanes=32)
    assert nest(GROUPS, config, PRODUCT) == "3, 5, 3, 3, 16, unroll 7, vector 32"
    assert nest(GROUPS, config, "T_relu") == "3, 5, unroll 7, vector 32"
    assert nest(GROUPS, config, PAD) == "3, 11, 9, vector 16"
