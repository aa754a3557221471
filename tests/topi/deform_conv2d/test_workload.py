"""Shapes and texts of deformable convolutions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deformable import DEFORMS, deformables
from hypothesis import given

from tvm_neocpu.core.errors import WorkloadTextError
from tvm_neocpu.core.network.workload import Role
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.deform_conv2d.text import EXAMPLE, parse
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload
from tvm_neocpu.topi.workload_text import parse_workload

DEFORM = DEFORMS["deformable, groups"]


def test_shapes() -> None:
    assert DEFORM.out_shape == (2, 36, 7, 6)
    assert DEFORM.weight_shape == (36, 8, 2, 3)
    assert DEFORM.offset_shape == (2, 2 * 2 * 6, 7, 6)
    assert replace(DEFORM, masked=True).mask_shape == (2, 2 * 6, 7, 6)
    assert DEFORM.samples == 2 * 2 * 6 * 7 * 6


def test_offsets_and_mask_are_plain() -> None:
    operands = replace(DEFORM, masked=True).operands
    assert [(operand.name, operand.role) for operand in operands] == [
        ("data", Role.FEATURE_MAP),
        ("weight", Role.WEIGHT),
        ("offset", Role.PLAIN),
        ("mask", Role.PLAIN),
    ]
    assert [operand.name for operand in DEFORM.operands] == ["data", "weight", "offset"]


def test_blocks_share_weights_and_offsets() -> None:
    assert DEFORM.shared_channels == 4
    assert replace(DEFORM, groups=1).shared_channels == 12
    assert replace(DEFORM, offset_groups=24).shared_channels == 1


def test_interpolation_counts_as_arithmetic() -> None:
    deform = DeformConvWorkload(1, 4, 3, 3, 2, (1, 1))
    assert deform.flops == 9 * (2 * 4 * 2 + 8 * 4)
    assert replace(deform, offset_groups=2).flops == deform.flops


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"groups": 5}, "5 groups do not divide 24 input channels"),
        ({"offset_groups": 7}, "7 groups do not divide 24 input channels"),
        ({"groups": 8}, "8 groups do not divide 36 output channels"),
        ({"offset_groups": 0}, "0 groups"),
        ({"height": 0}, "window is larger"),
    ],
)
def test_what_is_no_convolution(change: dict[str, int], reason: str) -> None:
    found = replace(DEFORM, **change).misfit
    assert found is not None and reason in found
    assert DEFORM.misfit is None


@given(deform=deformables())
def test_a_text_is_read_back(deform: DeformConvWorkload) -> None:
    assert parse_workload(str(deform)) == deform


def test_texts() -> None:
    assert str(DEFORM) == "deformable batch2 24x7x9->36 2x3 s(1, 2) p(2, 1, 0, 3) d(2, 1) g3 og2"
    assert str(parse(EXAMPLE)) == EXAMPLE
    assert parse("64x56x56->64 3x3 p1") is None
    assert parse("deformable dense 1x2->3") is None
    assert str(replace(DEFORM, types=uniform("float64"))).count("float64") == 1
    with pytest.raises(WorkloadTextError, match="7 groups do not divide 64"):
        parse("deformable 64x56x56->64 3x3 p1 og7")
    with pytest.raises(WorkloadTextError, match="none of"):
        parse("deformable 64x56x56->64 3x3 p1 og2 mask")
