"""Computed numbers that name places of a tensor, clamped to places that exist.

ONNX Runtime refuses others; here a computed one becomes the nearest that exists, as an index of a
Gather does.
"""

from __future__ import annotations

from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions


def inside(node: Node, number: int, last: int) -> relax.Expr:
    """Input ``number``, of whole numbers, at least 0 and at most ``last``.

    Raises UnsupportedOperatorError for a known one outside.
    """
    known = node.known(number)
    if known is not None:
        outside = known[(known < 0) | (known > last)]
        if outside.size:
            raise UnsupportedOperatorError(f"{outside.flat[0]} is not between 0 and {last}")
        return node.required(number)
    return _clamped(node, node.required(number), last)


def inside_axis(node: Node, number: int, axis: int, more: int = 0) -> relax.Expr:
    """As :func:`inside`, for an axis of the data, whose extent a run may know only.

    At most the last place plus ``more``.
    """
    extent = _extent(node, axis)
    if extent is not None:
        return inside(node, number, extent - 1 + more)
    return on_axis(node, node.required(number), axis, more)


def on_axis(node: Node, value: relax.Expr, axis: int, more: int = 0) -> relax.Expr:
    """A computed value, also of floats, as :func:`inside_axis`; a NaN becomes a place, too."""
    extent = _extent(node, axis)
    if extent is not None:
        return _clamped(node, value, extent - 1 + more)

    def clamped(places: te.Tensor, data: te.Tensor) -> te.Tensor:
        zero = tirx.const(0, places.dtype)
        last = tirx.Cast(places.dtype, data.shape[axis] - 1 + more)
        return te.compute(
            places.shape, lambda *at: tirx.max(tirx.min(places(*at), last), zero), name="inside"
        )

    return node.builder.emit_te(clamped, value, node.data, primfunc_name_hint="inside")


def _extent(node: Node, axis: int) -> int | None:
    dims = dimensions(node.data.ty)
    return None if dims is None else dims[axis]


def _clamped(node: Node, value: relax.Expr, last: int) -> relax.Expr:
    kind = str(value.ty.dtype)
    at_most = node.emit(relax.op.minimum(value, relax.const(last, kind)))
    return node.emit(relax.op.maximum(at_most, relax.const(0, kind)))
