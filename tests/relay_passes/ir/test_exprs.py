"""What an expression is, and the same expression over other variables."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GlobalVar

from tvm_neocpu.relay_passes.ir.exprs import (
    call_of,
    is_foldable,
    op_name,
    operands,
    over_variables,
    static_shape,
    variables,
)

op = relax.op
X, Y = (relax.Var(name, relax.TensorType((2, 3), "float32")) for name in "xy")
HALF = relax.const(0.5, "float32")
N = tvm.tirx.Var("n", "int64")


def test_only_calls_of_operators_have_a_name() -> None:
    assert op_name(op.nn.relu(X)) == "relax.nn.relu"
    assert op_name(X) == op_name(None) == op_name(HALF) == ""
    assert op_name(relax.Call(GlobalVar("relax.add"), [X, Y])) == ""
    assert op_name(relax.Call(relax.ExternFunc("relax.add"), [X, Y])) == ""


def test_a_call_of_an_operator() -> None:
    call = op.add(X, Y)
    assert call_of(call, "relax.add") is call
    assert call_of(call, "relax.multiply") is None
    assert operands(call) == [X, Y]


def test_shapes_are_static_or_nothing() -> None:
    assert static_shape(X) == (2, 3)
    assert static_shape(HALF) == ()
    for ty in (
        relax.TensorType([N, 3], "float32"),
        relax.TensorType(ndim=2, dtype="float32"),
        relax.TupleType([X.ty]),
        relax.ShapeType([2, 3]),
    ):
        assert static_shape(relax.Var("v", ty)) is None


def test_what_may_be_folded_has_full_precision() -> None:
    def of_type(dtype: str) -> relax.Var:
        return relax.Var("x", relax.TensorType((2, 3), dtype))

    assert is_foldable(X) and is_foldable(of_type("float64"))
    assert not is_foldable(of_type("float16")) and not is_foldable(of_type("int64"))
    assert not is_foldable(relax.Var("t", relax.TupleType([X.ty])))


def test_variables_are_listed_as_often_as_they_are_read() -> None:
    assert list(variables(op.multiply(X, X))) == [X, X]
    assert list(variables(relax.Tuple([X, relax.Tuple([Y, HALF])]))) == [X, Y]
    assert list(variables(relax.TupleGetItem(relax.Tuple([X, Y]), 0))) == [X, Y]
    assert list(variables(relax.ShapeExpr([N, 3]))) == [N]


def test_variables_are_replaced_inside_calls_and_tuples() -> None:
    def swap(var: relax.Var) -> relax.Expr:
        return Y if var.same_as(X) else X

    tuples = relax.TupleGetItem(relax.Tuple([X, HALF]), 0)
    assert over_variables(X, swap).same_as(Y)
    assert over_variables(HALF, swap).same_as(HALF)
    for before, after in (
        (op.add(X, Y), op.add(Y, X)),
        (op.concat([X, Y], axis=1), op.concat([Y, X], axis=1)),
        (tuples, relax.TupleGetItem(relax.Tuple([Y, HALF]), 0)),
    ):
        found = over_variables(before, swap)
        assert tvm_ffi.structural_equal(found, after, map_free_vars=True)
        assert list(variables(found)) == list(variables(after))


def test_an_expression_over_variables_of_equal_types_keeps_its_type() -> None:
    call = relax.BlockBuilder().normalize(op.add(X, Y))
    assert over_variables(call, lambda var: var) is call
    renamed = over_variables(call, {X: Y, Y: X}.__getitem__)
    assert operands(renamed) == [Y, X] and renamed.ty.same_as(call.ty)
    wide = relax.Var("w", relax.TensorType((1, 3), "float32"))
    assert over_variables(call, lambda _: wide).ty.is_missing()
    assert over_variables(op.add(X, Y), lambda _: Y).ty.is_missing()
