"""TopK, ArgMax, ArgMin and Hardmax."""

from __future__ import annotations

import math
import operator
from dataclasses import replace

import numpy as np
from tvm import relax, te

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.best_of_rows import ORDERS, best_of_rows
from tvm_neocpu.frontend.converters.compute.extreme_across import place_across
from tvm_neocpu.frontend.converters.compute.extreme_in_rows import place_in_rows
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.compute.run_time_extent import head, length_from
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.selecting.one_hot import is_at
from tvm_neocpu.relay_passes.ir.exprs import call_of, ints
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of
from tvm_neocpu.topi.math.extreme_place import LONG, place_of_extreme

# TVM's runtime sorts no unsigned integers but the narrowest.
_SORTED_AS = {"uint16": "int32", "uint32": "int64"}


def top_k(node: Node) -> relax.Expr:
    """The ``k`` largest or smallest elements along ``axis``, sorted, and their places.

    ``sorted`` 0 leaves the order open; they are sorted all the same. ``k`` may be a run's.
    """
    axis = node.from_front(int(node.attributes["axis"]))
    largest = bool(node.attributes.get("largest", 1))
    k = node.attributes.get("k")
    if k is None:
        try:
            given = node.constant(1)
        except UnsupportedOperatorError:
            return _of_run_time_length(node, axis, largest)
        k = None if given is None else int(given.item())
    if k is None or k < 0:
        raise UnsupportedOperatorError(f"k is {k}")
    shape = static_shape_of(node.data.ty)
    if shape is not None and k > shape[axis]:
        raise UnsupportedOperatorError(f"k is {k}, axis {axis} has {shape[axis]} elements")
    if k == 0:
        if shape is None:
            raise UnsupportedOperatorError("k is 0")
        empty = np.zeros([*shape[:axis], 0, *shape[axis + 1 :]])
        return relax.Tuple(
            [relax.const(empty.astype(dtype), dtype) for dtype in (node.dtype, "int64")]
        )
    if shape is not None and 0 not in shape and node.dtype in ORDERS:
        return relax.Tuple(list(best_of_rows(node, node.data, axis, k, largest)))
    return relax.Tuple(list(_sorted(node, axis, largest, k)))


def _of_run_time_length(node: Node, axis: int, largest: bool) -> relax.Expr:
    """All elements sorted, of which a run keeps the first ``k``: it fails where there are less."""
    values, places = _sorted(node, axis, largest, -1)
    extent = length_from(node, node.required(1), "top_k", extents_of(node.data)[axis])
    return relax.Tuple([head(node, part, axis, extent) for part in (values, places)])


def _sorted(node: Node, axis: int, largest: bool, k: int) -> tuple[relax.Expr, relax.Expr]:
    keys = node.data
    if node.dtype in _SORTED_AS:
        keys = node.emit(relax.op.astype(keys, _SORTED_AS[node.dtype]))
    elif node.dtype == "uint64":
        # The order of unsigned integers is that of signed ones once the top bit is turned.
        turned = relax.op.bitwise_xor(keys, relax.const(np.array(2**63, "uint64"), "uint64"))
        keys = node.emit(relax.op.astype(node.emit(turned), "int64"))
    found = node.emit(relax.op.topk(keys, k, axis, ret_type="both", largest=largest, dtype="int64"))
    places = node.emit(relax.TupleGetItem(found, 1))
    if keys is node.data:
        return node.emit(relax.TupleGetItem(found, 0)), places
    return node.emit(relax.op.gather_elements(node.data, places, axis)), places


# By (is the largest asked for, the last of equals).
_BETTER = {
    (True, False): operator.gt,
    (True, True): operator.ge,
    (False, False): operator.lt,
    (False, True): operator.le,
}


def arg_extremum(node: Node) -> relax.Expr:
    """The place of the largest or smallest element along ``axis``, of the first or last of equals.

    A NaN is chosen only where it stands first. Of several images pairs are reduced, slowly: only so
    is it proven that the images of an open batch stay apart.
    """
    is_largest = node.op_type == "ArgMax"
    axis = node.from_front(int(node.attributes["axis"]))
    keeps = bool(node.attributes.get("keepdims", 1))
    takes_last = bool(node.attributes.get("select_last_index", 0))
    if not keeps:
        node, axis = _before_a_transpose(node, axis)
    shape = static_shape_of(node.data.ty)
    if shape is not None and shape[0] == 1:
        better = _BETTER[is_largest, takes_last]
        if axis < node.rank - 1:
            return place_across(node, axis, better, keeps)
        if axis > 0 and 1 < shape[-1] < LONG and 0 not in shape:
            return place_in_rows(node, better, keeps)

    def compute(data: te.Tensor) -> te.Tensor:
        return place_of_extreme(data, axis, is_largest, keeps, takes_last)

    return node.builder.emit_te(compute, node.data, primfunc_name_hint=node.op_type.lower())


def _before_a_transpose(node: Node, axis: int) -> tuple[Node, int]:
    """The node over what a transpose has turned, if the axes but its own keep their order.

    # ArgMax(Transpose(x: NCHW -> NHWC), axis 3)  ->  ArgMax(x, axis 1)
    """
    data = node.data
    value = node.builder.lookup_binding(data) if isinstance(data, relax.Var) else data
    turned = call_of(value, "relax.permute_dims")
    if turned is None or turned.attrs.axes is None:
        return node, axis
    order = ints(turned.attrs.axes)
    others = [*order[:axis], *order[axis + 1 :]]
    if others != sorted(others):
        return node, axis
    source = turned.args[0]
    before = source if isinstance(source, relax.Var) else node.emit(source)
    return replace(node, inputs=(before, *node.inputs[1:])), order[axis]


def hardmax(node: Node) -> relax.Expr:
    """1 at the first largest element along ``axis``, 0 elsewhere.

    Before opset 13 all axes from ``axis`` on are one.
    """
    axis, data, shape = node.from_front(int(node.attributes["axis"])), node.data, None
    if node.opset < 13:
        shape = [node.extent(each) for each in range(node.rank)]
        rows, depth = math.prod(shape[:axis]), math.prod(shape[axis:])
        data, axis = node.emit(relax.op.reshape(data, [rows, depth])), 1
    else:
        depth = node.extent(axis)
    place = node.emit(relax.op.argmax(data, axis, keepdims=True))
    is_largest = is_at(node, node.emit(_from_first(place)), depth, axis)
    hard = relax.op.astype(is_largest, node.dtype)
    return hard if shape is None else relax.op.reshape(node.emit(hard), shape)


def _from_first(place: relax.Expr) -> relax.Expr:
    """The place that TVM found; the first where it gives -1, because all elements are -inf."""
    return relax.op.maximum(place, relax.const(0, "int64"))
