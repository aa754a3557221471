"""Gather, GatherElements and GatherND: no index reads outside its axis.

TVM's importer takes elements without a look at the index: one that is too large reads foreign
memory at run time. Known indices are checked at import. ONNX Runtime refuses a computed one outside
the axis; here it is moved to the nearest element. A negative index counts from the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Array, Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, static_shape_of


def gather(node: Node) -> relax.Expr:
    """``data`` and whole numbers of any shape ``s`` -> ``data.shape`` with ``s`` for one axis."""
    axis = int(node.attributes["axis"])
    extents = _extents(node)
    if extents is None or not -len(extents) <= axis < len(extents) or extents[axis] is None:
        return node.by_tvm()
    return relax.op.take(node.data, _inside(node, np.array(extents[axis])), axis, mode="clip")


def gather_elements(node: Node) -> relax.Expr:
    """``data`` and indices of its rank -> the indices' shape: ``data[.., indices[i], ..]``."""
    axis = int(node.attributes["axis"])
    extents = _extents(node)
    if extents is None or not -len(extents) <= axis < len(extents) or extents[axis] is None:
        return node.by_tvm()
    return relax.op.gather_elements(node.data, _inside(node, np.array(extents[axis])), axis)


def gather_nd(node: Node) -> relax.Expr:
    """``data`` and indices ``(.., k)`` -> ``(.., *rest)``: each row names k leading axes."""
    extents, places = _extents(node), static_shape_of(node.required(1).ty)
    batch = int(node.attributes.get("batch_dims", 0))
    if extents is None or not places:
        return node.by_tvm()
    named = extents[batch : batch + places[-1]]
    if len(named) != places[-1] or None in named:
        return node.by_tvm()
    return relax.op.gather_nd(node.data, _inside(node, np.array(named)), batch)


def _extents(node: Node) -> Sequence[int | None] | None:
    """The data's; ``None`` for what is no tensor of known rank."""
    return dimensions(node.data.ty) if isinstance(node.data.ty, relax.TensorType) else None


def _inside(node: Node, extents: Array) -> relax.Expr:
    """Input 1, at least 0 and below its extent; ``extents`` broadcast over its last axis.

    Raises UnsupportedOperatorError for a known index outside.
    """
    known = node.known(1)
    if known is not None:
        outside = known[(known < -extents) | (known >= extents)]
        if outside.size:
            axis = f"an axis of {extents}" if extents.ndim == 0 else f"axes of {extents.tolist()}"
            raise UnsupportedOperatorError(f"index {outside.flat[0]} is outside {axis}")
        return relax.const(np.where(known < 0, known + extents, known), str(known.dtype))
    index = node.required(1)
    kind = str(index.ty.dtype)
    first, last, count = (
        relax.const(values.astype(kind), kind) for values in (-extents, extents - 1, extents)
    )
    low = node.emit(relax.op.maximum(index, first))
    index = node.emit(relax.op.minimum(low, last))
    is_negative = node.emit(relax.op.less(index, relax.const(0, kind)))
    from_end = node.emit(relax.op.add(index, count))
    return node.emit(relax.op.where(is_negative, from_end, index))
