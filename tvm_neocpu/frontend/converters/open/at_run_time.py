"""Numbers that a run computes: read as extents, and written as tensors."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.compute.run_checks import require, vector_of
from tvm_neocpu.frontend.converters.known import (
    Extent,
    Extents,
    Numbers,
    as_expr,
    numbers,
)
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


def read(node: Node, place: int) -> Numbers | None:
    """The elements of an integer input: known, or names for what a run computes.

    ``None`` where the node omits it. Raises UnsupportedOperatorError if their number is not known.
    """
    value = node.input(place)
    if value is None:
        return None
    known = node.known(place)
    if known is not None:
        return numbers(known)
    found = node.extents.values(value)
    if found is not None:
        return found
    shape = static_shape_of(value.ty)
    if shape is None or len(shape) > 1:
        raise UnsupportedOperatorError(f"the length of input {place} is not known at import")
    vector = value
    if str(value.ty.dtype) != "int64":
        vector = node.emit(relax.op.astype(vector, "int64"))
    if shape == ():
        vector = node.emit(relax.op.reshape(vector, [1]))
    names = [tirx.Var(f"number_{at}", "int64") for at in range(shape[0] if shape else 1)]
    node.builder.match_cast(node.emit(relax.op.tensor_to_shape(vector)), relax.ShapeType(names))
    return numbers(names).reshape(shape)


def tensor_of(node: Node, values: Numbers, dtype: str) -> relax.Expr:
    """An integer tensor of numbers, whose elements stay known; a constant where they are ints."""
    if all(isinstance(value, int) for value in values.flat):
        return relax.const(values.astype(dtype), dtype)
    found = node.builder.emit_te(
        vector_of, [as_expr(value) for value in values.flat], dtype, primfunc_name_hint="numbers"
    )
    if values.ndim != 1:
        found = node.emit(relax.op.reshape(found, list(values.shape)))
    node.extents.know(found, values)
    return found


def at_extents(node: Node, value: relax.Expr, extents: Sequence[Extent]) -> relax.Expr:
    """The tensor with these numbers and names for its extents; a run checks what is not known.

    A match_cast would not do: CanonicalizeBindings drops one that gives an extent a second name,
    and leaves the types of its readers as they were.
    """
    own = extents_of(value)
    known = node.extents
    require(
        node,
        [
            equal(one, other)
            for one, other in zip(own, extents, strict=True)
            if not known.same(one, other)
        ],
    )
    if all(_identical(one, other) for one, other in zip(own, extents, strict=True)):
        return value
    shape = relax.ShapeExpr([as_expr(extent) for extent in extents])
    return node.emit(relax.op.reshape(value, shape))


def names_of(node: Node, extents: Sequence[Extent], names: Sequence[str]) -> list[Extent]:
    """A name for each expression; numbers and names stay."""
    return with_names(node.builder, node.extents, extents, names)


def with_names(
    builder: relax.BlockBuilder, known: Extents, extents: Sequence[Extent], names: Sequence[str]
) -> list[Extent]:
    """As :func:`names_of`, between nodes."""
    simple = [known.simple(extent) for extent in extents]
    unnamed = [extent for extent in simple if not isinstance(extent, (int, tirx.Var))]
    if not unnamed:
        return simple
    vector = builder.emit_te(vector_of, unnamed, "int64", primfunc_name_hint="extents")
    found = [
        extent if isinstance(extent, (int, tirx.Var)) else known.defined(name, extent)
        for extent, name in zip(simple, names, strict=True)
    ]
    new = [
        name
        for name, extent in zip(found, simple, strict=True)
        if not isinstance(extent, (int, tirx.Var))
    ]
    builder.match_cast(builder.emit(relax.op.tensor_to_shape(vector)), relax.ShapeType(new))
    return found


def equal(one: Extent, other: Extent) -> tirx.Expr | bool:
    """The condition that two numbers are equal."""
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return tirx.EQ(as_expr(one), as_expr(other))


def _identical(one: Extent, other: Extent) -> bool:
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one == other
    return bool(one.same_as(other))


__all__ = [
    "at_extents",
    "equal",
    "names_of",
    "read",
    "tensor_of",
    "with_names",
]
