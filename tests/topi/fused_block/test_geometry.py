"""Groups: the bands that fit, what lies between the layers, what is refused and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.network.layer_group import Bands
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig, DepthwiseGeometry
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, candidates, is_band, misfit
from tvm_neocpu.topi.fused_block.member import Member

EXPAND = Member(
    ConvWorkload(2, 16, 28, 28, 48, (1, 1)), ConvConfig(16, 16, reg_n=7, reg_m=2, oh_bn=7)
)
DEPTHWISE = Member(
    ConvWorkload(2, 48, 28, 28, 48, (3, 3), (2, 2), (1, 1, 1, 1), groups=48),
    DepthwiseConfig(ic_bn=16, oc_bn=16, reg_n=7, reg_m=2),
)
PROJECT = Member(ConvWorkload(2, 48, 14, 14, 32, (1, 1)), ConvConfig(16, 32, reg_n=7))
PAIR, BLOCK = (DEPTHWISE, PROJECT), (EXPAND, DEPTHWISE, PROJECT)


def test_rows_are_those_of_whole_tiles_that_divide_the_image() -> None:
    assert [block.bands for block in candidates(PAIR, 2)] == [Bands(2), Bands(14)]


def test_an_expansion_offers_rings_and_halos() -> None:
    """Seven bands: all in one run, in runs for two cores, each by itself."""
    two = {block.bands.run for block in candidates(BLOCK, 2) if block.bands.rows == 2}
    assert two == {1, 2, 4}
    one = {block.bands.run for block in candidates(BLOCK, 1) if block.bands.rows == 2}
    assert one == {1, 2, 3, 4, 7}


def test_bands_of_a_log_that_fit() -> None:
    assert is_band(BLOCK, Bands(2, 7)) and is_band(PAIR, Bands(2))
    # Tiles of two rows; no more bands than there are; nothing to keep without an expansion.
    for members, bands in (
        (BLOCK, Bands(1)),
        (BLOCK, Bands(4)),
        (BLOCK, Bands(2, 8)),
        (PAIR, Bands(2, 7)),
        (PAIR, Bands(0)),
    ):
        assert not is_band(members, bands)


def test_what_lies_between_is_the_rows_of_all_channels() -> None:
    block = FusedBlock(PAIR, Bands(2))
    assert block.shape_behind(0) == (3, 2, 14, 16)
    assert block.kept_bytes == 4 * 3 * 2 * 14 * 16
    assert (block.course.count, block.chunks) == (7, 14)


def test_a_ring_holds_what_a_band_reads() -> None:
    """Two output rows of stride 2 read five; a tile ends where they end."""
    ring = FusedBlock(BLOCK, Bands(2, 7))
    assert ring.steps[0].rows == 4
    assert ring.shape_behind(0) == (3, 5, 28, 16)
    assert ring.chunks == 2


def test_a_band_by_itself_keeps_a_block_of_channels() -> None:
    alone = FusedBlock(BLOCK, Bands(2))
    assert alone.steps[0].rows == 2
    assert alone.shape_behind(0) == (1, 6, 28, 16)
    whole = FusedBlock(BLOCK, Bands(2), whole=True)
    assert whole.shape_behind(0) == (3, 6, 28, 16)


def test_all_layers_are_cut_at_the_same_rows() -> None:
    first, deep, last = (step.member for step in FusedBlock(BLOCK, Bands(2, 7)).steps)
    assert DirectGeometry(first.workload, first.config).chunks == 2 * 3 * 7
    assert DepthwiseGeometry(deep.workload, deep.config).chunks == 2 * 3 * 7
    assert DirectGeometry(last.workload, last.config).chunks == 2 * 7


def with_config(member: Member, **knobs: int | bool) -> Member:
    return replace(member, config=replace(member.config, **knobs))


def with_workload(member: Member, **fields: object) -> Member:
    return replace(member, workload=replace(member.workload, **fields))  # type: ignore[arg-type]


DOUBLE = uniform("float64")
# A depthwise layer over the whole image, and a 1x1 layer that reads its weights in streams.
GLOBAL = Member(
    ConvWorkload(1, 256, 7, 7, 256, (7, 7), groups=256), DepthwiseConfig(16, 16, reg_n=1)
)
EMBEDDING = Member(ConvWorkload(1, 256, 1, 1, 128, (1, 1)), ConvConfig(16, 16, reg_n=1))


@pytest.mark.parametrize(
    ("depthwise", "project", "reason"),
    [
        (DEPTHWISE, PROJECT, None),
        (with_workload(DEPTHWISE, out_channels=96), PROJECT, "no depthwise layer of one output"),
        (with_config(DEPTHWISE, reg_m=4), PROJECT, "tiles of 4 rows overhang the 14 rows"),
        (with_workload(DEPTHWISE, types=DOUBLE), PROJECT, "only fp32"),
        (DEPTHWISE, with_workload(PROJECT, kernel=(3, 3)), "is no 1x1 layer"),
        (DEPTHWISE, replace(PROJECT, config=DEPTHWISE.config), "not computed by the direct"),
        (DEPTHWISE, with_config(PROJECT, reg_n=4), "register tiles overhang"),
        (DEPTHWISE, with_config(PROJECT, ic_bn=8), "does not read what"),
        (DEPTHWISE, with_workload(PROJECT, height=7), "does not read what"),
        (GLOBAL, EMBEDDING, "blocks of channels share register tiles"),
        (GLOBAL, with_workload(EMBEDDING, out_channels=32), None),  # 32 KiB of weights
    ],
)
def test_what_is_no_group_says_why(depthwise: Member, project: Member, reason: str | None) -> None:
    found = misfit((depthwise, project))
    assert found is None if reason is None else found is not None and reason in found


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (BLOCK, None),
        ((EXPAND, DEPTHWISE), None),
        ((EXPAND,), "two or three dense layers"),
        ((DEPTHWISE,), "is not between 1x1 layers"),
        ((EXPAND, EXPAND, DEPTHWISE), "is not between 1x1 layers"),
        ((with_config(EXPAND, oc_bn=8), DEPTHWISE), "does not read what"),
        ((with_config(EXPAND, reg_m=3), DEPTHWISE), "register tiles overhang"),
        ((with_workload(EXPAND, kernel=(3, 3)), DEPTHWISE), "is no 1x1 layer"),
    ],
)
def test_what_may_stand_in_front(members: tuple[Member, ...], reason: str | None) -> None:
    found = misfit(members)
    assert found is None if reason is None else found is not None and reason in found
