"""Groups: the numbers of rows that fit, what lies between the layers, what is refused and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig, DepthwiseGeometry
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member, candidates, misfit

DEPTHWISE = Member(
    ConvWorkload(2, 48, 28, 28, 48, (3, 3), (2, 2), (1, 1, 1, 1), groups=48),
    DepthwiseConfig(ic_bn=16, oc_bn=16, reg_n=7, reg_m=2),
)
PROJECT = Member(ConvWorkload(2, 48, 14, 14, 32, (1, 1)), ConvConfig(16, 32, reg_n=7))


def test_rows_are_those_of_whole_tiles_that_divide_the_image() -> None:
    assert [block.rows for block in candidates(DEPTHWISE, PROJECT)] == [2, 14]


def test_what_lies_between_is_the_rows_of_all_channels() -> None:
    block = FusedBlock(DEPTHWISE, PROJECT, rows=2)
    assert block.between_shape == (3, 2, 14, 16)
    assert block.between_bytes == 4 * 3 * 2 * 14 * 16
    assert (block.groups, block.chunks) == (7, 14)


def test_both_layers_are_cut_at_the_same_rows() -> None:
    block = FusedBlock(DEPTHWISE, PROJECT, rows=2)
    first, last = block.chunked
    assert DepthwiseGeometry(first.workload, first.config).chunks == 2 * 3 * 7
    assert DirectGeometry(last.workload, last.config).chunks == 2 * 7


def with_config(member: Member, **knobs: int | bool) -> Member:
    return replace(member, config=replace(member.config, **knobs))


def with_workload(member: Member, **fields: object) -> Member:
    return replace(member, workload=replace(member.workload, **fields))  # type: ignore[arg-type]


DOUBLE = uniform("float64")


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
    ],
)
def test_what_is_no_group_says_why(depthwise: Member, project: Member, reason: str | None) -> None:
    found = misfit(depthwise, project)
    assert found is None if reason is None else found is not None and reason in found
