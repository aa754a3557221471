"""OneHot: any axis, indices and values of any type."""

from __future__ import annotations

import numpy as np
from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.run_time_extent import length_from
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

# A run that asks for more fails.
_MOST_CLASSES = 2**30


def one_hot(node: Node) -> relax.Expr:
    """Indices ``(d0, ...)`` -> ``(d0, .., depth, ..)``; ``depth`` may be a run's, and 0 then.

    A negative index counts from the end. One outside ``[-depth, depth)`` has no element on.
    """
    axis = node.attributes["axis"]
    if not -node.rank - 1 <= axis <= node.rank:
        raise UnsupportedOperatorError(f"axis {axis} is outside a result of rank {node.rank + 1}")
    axis %= node.rank + 1
    indices = node.emit(relax.op.astype(node.data, "int64"))
    if node.known(1) is None:
        return _of_run_time_depth(node, indices, axis)
    depth = _depth(node)
    is_negative = node.emit(relax.op.less(indices, relax.const(0, "int64")))
    from_end = node.emit(relax.op.add(indices, relax.const(depth, "int64")))
    indices = node.emit(relax.op.where(is_negative, from_end, indices))
    is_on = is_at(node, node.emit(relax.op.expand_dims(indices, axis)), depth, axis)
    off, on = (_value(node, place) for place in (0, 1))
    return relax.op.where(is_on, on, off)


def _of_run_time_depth(node: Node, indices: relax.Var, axis: int) -> relax.Expr:
    if static_shape_of(node.required(1).ty) not in ((), (1,)):
        raise UnsupportedOperatorError("depth must be one number")
    if static_shape_of(node.required(2).ty) != (2,):
        raise UnsupportedOperatorError("values must be two: off and on")
    extent = length_from(node, node.required(1), "depth", _MOST_CLASSES)

    def compute(indices: te.Tensor, values: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            index = indices(*at[:axis], *at[axis + 1 :])
            index = tirx.Select(index < 0, index + extent, index)
            return tirx.Select(index == at[axis], values[1], values[0])

        shape = [*indices.shape[:axis], extent, *indices.shape[axis:]]
        return te.compute(shape, element, name="one_hot")

    return node.builder.emit_te(compute, indices, node.required(2), primfunc_name_hint="one_hot")


def is_at(node: Node, indices: relax.Var, depth: int, axis: int) -> relax.Var:
    """Indices ``(d0, .., 1, ..)`` -> ``(d0, .., depth, ..)``, true at each index along ``axis``."""
    along = [depth if place == axis else 1 for place in range(int(indices.ty.ndim))]
    places = relax.const(np.arange(depth, dtype="int64").reshape(along), "int64")
    return node.emit(relax.op.equal(indices, places))


def _depth(node: Node) -> int:
    given = node.constant(1)
    if given is None or given.size != 1:
        raise UnsupportedOperatorError("depth must be one number")
    depth = int(given.item())
    if depth < 1:
        raise UnsupportedOperatorError(f"a depth of {depth} is not positive")
    return depth


def _value(node: Node, place: int) -> relax.Expr:
    part = node.emit(relax.op.strided_slice(node.required(2), [0], [place], [place + 1]))
    return node.emit(relax.op.reshape(part, []))
