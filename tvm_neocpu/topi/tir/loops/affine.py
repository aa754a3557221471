"""How accesses of a loop nest move in memory, and expressions with other values of its loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, Range, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, For

# The operator that chooses one of two values.
IF_THEN_ELSE = "prim.if_then_else"


def bounds(var: tirx.Var, first: int, last: int) -> Range:
    """``first <= var < last`` in constants of the variable's type.

    Where ``first + 1 == last``, an analyzer replaces the variable by ``first``: an int32 in the
    place of an int64 would be an error.
    """
    kind = str(var.ty.dtype)
    return Range(tirx.const(first, kind), tirx.const(last, kind))


def stride(
    analyzer: Analyzer, buffer: tirx.Buffer, indices: Sequence[Expr], var: tirx.Var
) -> int | None:
    """How many elements an access moves in memory with a loop; ``None`` if not evenly.

    ``analyzer`` knows the extents of the loops around.
    """
    place: Expr = tirx.const(0, "int64")
    for extent, index in zip(buffer.shape, indices, strict=True):
        place = place * extent + index
    place = analyzer.canonical_simplify(place)
    step = analyzer.simplify(replaced(place, {var: var + 1}) - place)
    return int(step) if isinstance(step, tirx.IntImm) else None


def store_of(realize: SBlockRealize) -> BufferStore:
    """A block's store, with the loops' variables in place of the block's axes."""
    block = realize.block
    axes = [axis.var for axis in block.iter_vars]
    store = replaced(block.body, dict(zip(axes, realize.iter_values, strict=True)))
    assert isinstance(store, BufferStore)
    return store


def with_flat_rows(store: BufferStore, loop: For) -> BufferStore:
    """A store whose accesses have one index for the axes that a loop runs over.

    a[c, k // 28, k % 28]  ->  a[c, 0, k]: the same element, without a division for each vector.
    """
    analyzer, k = Analyzer(), loop.loop_var
    analyzer.bind(k, Range.from_min_extent(loop.min, loop.extent))

    def flat(buffer: tirx.Buffer, indices: Sequence[Expr]) -> list[Expr]:
        moving = [at for at, index in enumerate(indices) if uses(index, k)]
        if len(moving) < 2:
            return list(indices)
        place: Expr = tirx.const(0, "int64")
        for extent, index in list(zip(buffer.shape, indices, strict=True))[moving[0] :]:
            place = place * extent + index
        zeros = [tirx.const(0, "int64")] * (len(indices) - moving[0] - 1)
        return [*indices[: moving[0]], *zeros, analyzer.canonical_simplify(place)]

    def load(found: TensorLoad) -> Expr:
        place = tuple(flat(found.source, found.indices))
        return found.source[place]

    value = tvm_ffi.structural_map(store.value, (TensorLoad, load))
    return BufferStore(store.buffer, value, flat(store.buffer, store.indices))


def replaced(tree: Any, values: Mapping[tirx.Var, Expr]) -> Any:
    """An expression or a statement with other values in place of variables."""

    def of(var: tirx.Var) -> Expr:
        return next((new for old, new in values.items() if old.same_as(var)), var)

    return tvm_ffi.structural_map(tree, (tirx.Var, of))


def uses(expr: Any, var: tirx.Var) -> bool:
    """Whether a variable is part of an expression."""
    return contains(expr, tirx.Var, var.same_as)


def names_values(tree: Any) -> bool:
    """Whether an expression or a statement names intermediate results, as long formulas do."""
    return contains(tree, tirx.Let)


def is_call(value: Any, *names: str) -> bool:
    """Whether an expression calls one of these operators."""
    return isinstance(value, Call) and getattr(value.op, "name", None) in names


def chooses(tree: Any) -> bool:
    """Whether an expression or a statement has a test: one of two values, or of two statements."""
    return contains(tree, tirx.IfThenElse) or contains(
        tree, Call, lambda call: is_call(call, IF_THEN_ELSE)
    )


def contains(tree: Any, kind: type, test: Callable[[Any], bool] = lambda _: True) -> bool:
    """Whether a node of that kind that passes the test is part of an expression or a statement."""

    def stop(found: Any) -> tvm_ffi.VisitInterrupt | None:
        return tvm_ffi.VisitInterrupt(None) if test(found) else None

    return tvm_ffi.structural_walk(tree, (kind, stop)) is not None
