"""Layout transforms as workloads: stored shapes, bytes, and how logs and people see them."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.types import uniform
from tvm_neocpu.core.workload import Role
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

MOVE = TransformWorkload(2, 48, 6, 7, 16, 0)


def test_it_reads_and_writes_a_tensor_as_it_is_stored() -> None:
    (data,) = MOVE.operands
    assert (data.shape, data.role) == ((2, 3, 6, 7, 16), Role.PLAIN)
    assert MOVE.out_shape == (2, 48, 6, 7)
    assert MOVE.in_shape == (2, 48, 6, 7)
    assert replace(MOVE, after=8).out_shape == (2, 6, 6, 7, 8)


def test_it_computes_nothing_and_moves_every_byte_twice() -> None:
    assert MOVE.flops == 0
    assert MOVE.min_bytes == 2 * 4 * 2 * 48 * 6 * 7
    assert replace(MOVE, types=uniform("float64")).min_bytes == 2 * MOVE.min_bytes


def test_what_moves_nothing_is_free() -> None:
    assert replace(MOVE, after=16).is_free
    assert replace(MOVE, height=1, width=1).is_free
    assert replace(MOVE, before=1).is_free
    assert not MOVE.is_free


def test_its_args_name_both_layouts() -> None:
    assert MOVE.args() == [["TENSOR", [2, 48, 6, 7], "float32"], "NCHW16c", "NCHW"]
    assert str(MOVE) == "48x6x7 NCHW16c->NCHW"
    assert str(replace(MOVE, types=uniform("float64"))) == "48x6x7 NCHW16c->NCHW float64"
