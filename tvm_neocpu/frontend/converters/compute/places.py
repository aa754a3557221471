"""Extents of tensors, and the places of their elements, in loops that are written by hand.

An extent is a number, or an expression of what only a run knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import relax, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.known import Extent, as_expr


def extents_of(value: relax.Expr) -> list[Extent]:
    """The extents of a tensor, numbers where they are known."""
    shape = value.ty.shape
    if not isinstance(shape, relax.ShapeExpr):
        raise UnsupportedOperatorError("the shape of an input is not known at import")
    return [int(dim) if isinstance(dim, tirx.IntImm) else dim for dim in shape.values]


def strides_of(shape: Sequence[Extent]) -> list[Extent]:
    """How far apart in memory the neighbours along each axis are, in elements."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def places_of(number: tirx.Expr, shape: Sequence[Extent]) -> list[tirx.Expr]:
    """The place of an element in each axis, from its row-major number."""
    return [
        tirx.indexmod(tirx.indexdiv(number, as_expr(stride)), as_expr(extent))
        for stride, extent in zip(strides_of(shape), shape, strict=True)
    ]


def from_end(index: tirx.Expr, extent: Extent) -> tirx.Expr:
    """The place of an index that counts from the end of its axis where it is negative."""
    index = tirx.Cast("int64", index)
    return tirx.Select(index < 0, index + as_expr(extent), index)
