"""Looking at one expression: its operator, shape, parts and variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm import relax
from tvm.ir import Call, GenericConst, Op
from tvm.relax.expr import _update_type

from tvm_neocpu.core.network.conv_graph import Shape4, shape4
from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

# The operator that calls a function of loops.
CALL_TIR = "relax.call_tir"


def op_name(expr: relax.Expr | None) -> str:
    """``"relax.nn.conv2d"`` for a call of that operator; ``""`` for anything else."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return ""
    return str(expr.op.name)


def call_of(expr: relax.Expr | None, op: str) -> Call | None:
    """``expr`` if it calls the operator of that name, such as ``"relax.add"``."""
    return expr if op_name(expr) == op else None


def static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """The shape of a tensor whose extents are static; ``None`` for any other expression."""
    return static_shape_of(expr.ty)


def static_shape4(expr: relax.Expr) -> Shape4:
    """The first four axes of a static shape, filled up by axes of one element."""
    return shape4(static_shape(expr) or ())


def dtype_of(expr: relax.Expr) -> str:
    """The element type of a tensor, such as ``"float32"``."""
    return str(expr.ty.dtype)


def same_type(left: relax.Expr, right: relax.Expr) -> bool:
    """Whether shape and element type of both are equal, as far as they are known."""
    return bool(tvm_ffi.structural_equal(left.ty, right.ty))


def is_foldable(expr: relax.Expr) -> bool:
    """Whether the expression is a tensor of an element type in which constants may be folded."""
    return isinstance(expr.ty, relax.TensorType) and dtype_of(expr) in FOLDED


def operands(expr: Call | relax.Tuple) -> list[relax.Expr]:
    """A call's arguments or a tuple's fields."""
    parts = expr.args if isinstance(expr, Call) else expr.fields
    return parts[:]  # a list; iterating TVM's array takes three times as long


def variables(expr: relax.Expr) -> Iterator[relax.Var]:
    """The variables that an expression reads, with repeats; symbolic extents are variables too.

    An ``If`` reads its condition and the results of its branches. The bindings inside the branches
    have values of their own.
    """
    found: list[relax.Var] = []
    _read(expr, found)
    return iter(found)


def _read(expr: relax.Expr, found: list[relax.Var]) -> None:
    """Append the variables. Passes ask some 100,000 times a build, hence types, not isinstance:
    TVM's classes are abstract ones, whose check is a call.
    """
    kind = type(expr)
    if kind is relax.Var or kind is relax.DataflowVar:
        found.append(expr)
    elif kind is Call or kind is relax.Tuple:
        for part in operands(expr):
            _read(part, found)
    elif kind is relax.TupleGetItem:
        _read(expr.tuple_value, found)
    elif kind is relax.If:
        for part in (expr.cond, expr.true_branch.body, expr.false_branch.body):
            _read(part, found)
    elif kind is not GenericConst:  # a constant's shape has no variables
        found.extend(relax.analysis.free_vars(expr))


def over_variables(value: relax.Expr, renamed: Callable[[relax.Var], relax.Expr]) -> relax.Expr:
    """The expression with every variable replaced, also inside of calls and tuples.

    Where all its parts have the types of before, so has the expression: TVM infers it in 0.2 ms.
    """
    if isinstance(value, relax.Var):
        return renamed(value)
    if isinstance(value, relax.Tuple):
        return relax.Tuple([over_variables(item, renamed) for item in value])
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(over_variables(value.tuple_value, renamed), value.index)
    if isinstance(value, Call):
        before = operands(value)
        args = [over_variables(arg, renamed) for arg in before]
        if all(new.same_as(old) for new, old in zip(args, before, strict=True)):
            return value
        call = Call(value.op, args, value.attrs, value.ty_args)
        if all(_has_type_of(new, old) for new, old in zip(args, before, strict=True)):
            _update_type(call, value.ty)
        return call
    return value


def _has_type_of(new: relax.Expr, old: relax.Expr) -> bool:
    """Whether they have one type; expressions that were never normalised have none."""
    if old.ty.is_missing():
        return False
    return bool(new.ty.same_as(old.ty)) or same_type(new, old)


__all__ = [
    "call_of",
    "dtype_of",
    "is_foldable",
    "op_name",
    "operands",
    "over_variables",
    "static_shape",
    "static_shape4",
    "variables",
]


def ints(values: Sequence[Any]) -> tuple[int, ...]:
    """TVM's integers (an attribute, a static shape) as Python's."""
    return tuple(map(int, values[:]))  # a list; iterating TVM's array takes three times as long


def integers_of(arg: relax.Expr) -> tuple[int, ...]:
    """The integers of a tuple of constants; empty for any other expression."""
    fields = list(arg) if isinstance(arg, relax.Tuple) else []
    values = [getattr(field, "value", None) for field in fields]
    if not all(isinstance(value, int) for value in values):
        return ()
    return tuple(values)
