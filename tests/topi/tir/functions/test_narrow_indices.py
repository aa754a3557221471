"""Indices of 32 bits: loops of 64 lose the hints that TVM cuts them by."""

from __future__ import annotations

from tvm import te, tirx

from tvm_neocpu.topi.tir.functions.narrow_indices import narrow_indices


def copy_of(*extents: tirx.Expr | int) -> tirx.PrimFunc:
    x = te.placeholder(extents, "float32", "x")
    return te.create_prim_func([x, te.compute(extents, lambda *at: x(*at) + 1, name="y")])


def wide(extent: int) -> tirx.IntImm:
    return tirx.IntImm("int64", extent)


def test_loops_are_of_32_bits() -> None:
    func = copy_of(wide(3), wide(5))
    assert "T.int64" in func.script() and "T.int64" not in narrow_indices(func).script()
    assert narrow_indices(func).attrs == func.attrs


def test_unknown_and_huge_extents_stay() -> None:
    for func in (copy_of(tirx.Var("n", "int64"), 5), copy_of(wide(2**16), wide(2**15))):
        assert narrow_indices(func).same_as(func)
