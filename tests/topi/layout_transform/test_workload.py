"""Layout transforms: what they move, when they are free, and how a log names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

MOVE = TransformWorkload(1, 64, 56, 56, 16, 8)
PLAIN = replace(MOVE, before=0)


def test_operand_and_result_have_the_stored_shapes() -> None:
    (data,) = MOVE.operands
    assert data.shape == (1, 4, 56, 56, 16)
    assert MOVE.out_shape == (1, 8, 56, 56, 8)
    assert PLAIN.operands[0].shape == PLAIN.in_shape == (1, 64, 56, 56)
    assert replace(MOVE, after=0).out_shape == (1, 64, 56, 56)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8), ("int8", 1)])
def test_every_element_is_read_and_written(dtype: str, size: int) -> None:
    move = replace(MOVE, types=uniform(dtype))
    assert move.min_bytes == 2 * size * 64 * 56 * 56
    assert move.in_bytes == move.out_bytes == move.min_bytes // 2
    assert (move.flops, move.weight_bytes) == (0, 0)


def test_it_is_free_where_no_element_moves() -> None:
    assert replace(MOVE, after=16).is_free
    assert replace(MOVE, height=1, width=1).is_free
    # A block of one channel stores the tensor as plain NCHW does.
    assert replace(PLAIN, after=1).is_free
    assert not MOVE.is_free
    assert not PLAIN.is_free


def test_both_blocks_divide_the_channels() -> None:
    assert MOVE.fits
    assert PLAIN.fits
    assert not replace(MOVE, after=24).fits
    assert not replace(MOVE, before=24).fits


def test_args_name_the_layouts() -> None:
    assert PLAIN.args() == [["TENSOR", [1, 64, 56, 56], "float32"], "NCHW", "NCHW8c"]
    assert replace(MOVE, types=uniform("int8")).args()[0][2] == "int8"


def test_one_line_for_people() -> None:
    assert str(MOVE) == "64x56x56 NCHW16c->NCHW8c"
    assert str(replace(MOVE, types=uniform("int8"))) == "64x56x56 NCHW16c->NCHW8c int8"
