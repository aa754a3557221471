"""Compress, NonZero and Unique: results whose length only a run knows."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.distinct_rows import distinct_rows
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.compute.places import extents_of, places_of
from tvm_neocpu.frontend.converters.compute.run_time_extent import extents_from, head
from tvm_neocpu.frontend.converters.known import as_expr
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


def non_zero(node: Node) -> relax.Expr:
    """``(d0, d1, ..)`` -> int64 ``(rank, count)``: the places of what is not zero, in order."""
    shape = extents_of(node.data) or [1]
    if 0 in shape:
        return relax.const(np.zeros((len(shape), 0), "int64"), "int64")
    size, rank = as_expr(math.prod(shape)), len(shape)

    def body(data, places, count) -> None:  # type: ignore[no-untyped-def]
        count[0] = T.int64(0)
        with T.serial(0, size) as i:
            # LLVM has no comparison of booleans as TVM writes it.
            is_set = data[i] if node.dtype == "bool" else data[i] != tirx.const(0, node.dtype)
            with T.If(is_set), T.Then():
                for axis, place in enumerate(places_of(i, shape)):
                    places[axis * size + count[0]] = place
                count[0] = count[0] + T.int64(1)

    outputs = [((rank, size), "int64"), ((1,), "int64")]
    places, count = emit_loops(node, "non_zero", [node.data], outputs, body)
    (extent,) = extents_from(node, count, ["not_zero"], math.prod(shape))
    return head(node, places, 1, extent)


def compress(node: Node) -> relax.Expr:
    """The slices along ``axis``, or the elements, whose condition holds.

    A condition shorter than the axis drops the rest.
    """
    (data, axis), condition = _along(node), node.required(1)
    (given,), extent = extents_of(condition), extents_of(data)[axis]
    length = tirx.min(as_expr(given), as_expr(extent))

    def body(condition, data, places, count) -> None:  # type: ignore[no-untyped-def]
        count[0] = T.int64(0)
        with T.serial(0, length) as i, T.If(condition[i]), T.Then():
            places[count[0]] = i
            count[0] = count[0] + T.int64(1)

    # The loop reads of the data only the extent, which a run alone may know.
    outputs = [((tirx.max(length, T.int64(1)),), "int64"), ((1,), "int64")]
    places, count = emit_loops(node, "compress", [condition, data], outputs, body)
    (extent,) = extents_from(node, count, ["kept"], length)
    return relax.op.take(data, head(node, places, 0, extent), axis=axis, mode="clip")


def unique(node: Node) -> relax.Expr:
    """Distinct elements, or slices along ``axis``; first places, inverse places and counts.

    ``sorted`` 0 keeps the order of first places.
    """
    data, axis = _along(node)
    shape = static_shape_of(data.ty)
    if shape is None:
        raise UnsupportedOperatorError("the shape of its input is not known at import")
    number, width = shape[axis], math.prod(shape) // max(shape[axis], 1)
    if number == 0:
        raise UnsupportedOperatorError("no element")
    order = [axis, *(place for place in range(len(shape)) if place != axis)]
    turned = data if axis == 0 else node.emit(relax.op.permute_dims(data, order))
    found = distinct_rows(node, turned, number, width, bool(node.attributes["sorted"]))
    (extent,) = extents_from(node, found.count, ["distinct"])
    first = head(node, found.first, 0, extent)
    values = node.emit(relax.op.take(data, first, axis=axis, mode="clip"))
    if node.outputs == 1:
        return values
    counts = head(node, found.counts, 0, extent)
    return relax.Tuple([values, first, found.inverse, counts][: node.outputs])


def _along(node: Node) -> tuple[relax.Expr, int]:
    """The data and the axis; without the attribute all elements in a row."""
    data, axis = node.data, node.attributes.get("axis")
    if axis is None:
        data, axis = node.emit(relax.op.reshape(data, [-1])), 0
    rank = len(extents_of(data))
    if not -rank <= axis < rank:
        raise UnsupportedOperatorError(f"axis {axis} is outside data of rank {rank}")
    return data, axis % rank


__all__ = ["compress", "non_zero", "unique"]
