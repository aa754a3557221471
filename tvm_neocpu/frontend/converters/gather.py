"""Gather: indices that are known are checked at import, computed ones never leave the axis.

TVM's importer takes elements without a look at the index: one that is too large reads foreign
memory at run time.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions


def gather(node: Node) -> relax.Expr:
    """``data`` and whole numbers of any shape ``s`` -> ``data.shape`` with ``s`` for one axis.

    A negative index counts from the end. ONNX Runtime refuses a computed index outside the axis;
    here it is moved to the nearest element.
    """
    dims = dimensions(node.data.ty) if isinstance(node.data.ty, relax.TensorType) else None
    axis = int(node.attributes["axis"])
    if dims is None or not -len(dims) <= axis < len(dims):
        return node.by_tvm()
    extent, known = dims[axis], node.known(1)
    if extent is None:
        return node.by_tvm()
    if known is None:
        return relax.op.take(node.data, _from_the_start(node, extent), axis, mode="clip")
    if known.size and not -extent <= known.min() <= known.max() < extent:
        outside = known[(known < -extent) | (known >= extent)].flat[0]
        raise UnsupportedOperatorError(f"index {outside} is outside an axis of {extent}")
    return relax.op.take(node.data, relax.const(np.where(known < 0, known + extent, known)), axis)


def _from_the_start(node: Node, extent: int) -> relax.Var:
    """Computed indices, the negative ones counted from the end."""
    index = node.required(1)
    kind = str(index.ty.dtype)
    is_negative = node.emit(relax.op.less(index, relax.const(0, kind)))
    wrapped = node.emit(relax.op.add(index, relax.const(extent, kind)))
    return node.emit(relax.op.where(is_negative, wrapped, index))
