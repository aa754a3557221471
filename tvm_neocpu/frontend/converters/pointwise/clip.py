"""Clip with known bounds, as the two operators that every pass knows.

TVM's importer writes loops at once, in which no pass sees an operator.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.frontend.converters.node import Node

_FLOATS = ("float16", "float32", "float64")
# The default of the bounds that were attributes, below opset 11: no bound.
_LARGEST = float(np.finfo("float32").max)


def clip(node: Node) -> relax.Expr:
    """``minimum(maximum(x, low), high)``; either bound may be omitted."""
    if node.dtype not in _FLOATS or not all(_is_known(node, place) for place in (1, 2)):
        return node.by_tvm()
    low, high = _bound(node, "min", 1), _bound(node, "max", 2)
    value = node.data
    if low is not None:
        value = node.emit(relax.op.maximum(value, relax.const(low, node.dtype)))
    return value if high is None else relax.op.minimum(value, relax.const(high, node.dtype))


def _is_known(node: Node, place: int) -> bool:
    return node.input(place) is None or node.known(place) is not None


def _bound(node: Node, name: str, place: int) -> float | None:
    if node.opset < 11:
        value = node.attributes.get(name)
        return None if value is None or abs(value) >= _LARGEST else float(value)
    values = node.constant(place)
    return None if values is None else float(values.reshape(()))
