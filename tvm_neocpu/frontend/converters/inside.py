"""Computed places that a node reads or writes, moved to where there is something."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node


def inside(node: Node, place: int, last: int) -> relax.Expr:
    """An input of whole numbers, at least 0 and at most ``last``.

    ONNX Runtime refuses others; a computed one becomes the nearest that there is, as an index of a
    Gather does. Raises UnsupportedOperatorError for a known one.
    """
    known = node.known(place)
    if known is not None:
        outside = known[(known < 0) | (known > last)]
        if outside.size:
            raise UnsupportedOperatorError(f"{outside.flat[0]} is not between 0 and {last}")
        return node.required(place)
    given = node.required(place)
    kind = str(given.ty.dtype)
    at_least = node.emit(relax.op.maximum(given, relax.const(0, kind)))
    return node.emit(relax.op.minimum(at_least, relax.const(last, kind)))
