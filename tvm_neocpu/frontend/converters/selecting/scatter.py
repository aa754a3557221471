"""Scatter, ScatterElements and ScatterND with every reduction; negative indices count from the end.

An index outside the data changes nothing, as no run may write outside its tensor. ONNX Runtime
refuses such an index at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.compute.places import (
    extents_of,
    from_end,
    places_of,
    strides_of,
)
from tvm_neocpu.frontend.converters.known import Extent, as_expr
from tvm_neocpu.frontend.converters.node import Node

Merge = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]
_INDEX = "int64"
_MERGES: Mapping[str, Merge] = MappingProxyType(
    {
        "none": lambda old, new: new,
        "add": lambda old, new: old + new,
        "mul": lambda old, new: old * new,
        "max": tirx.max,
        "min": tirx.min,
    }
)
_BOOLEAN_MERGES: Mapping[str, Merge] = MappingProxyType(
    {
        "none": lambda old, new: new,
        "add": tirx.any,
        "mul": tirx.all,
        "max": tirx.any,
        "min": tirx.all,
    }
)


def scatter_elements(node: Node) -> relax.Expr:
    """Data with ``data[.., indices[i], ..]``, along ``axis``, merged with ``updates[i]``."""
    merge = _merge(node)
    indices, updates = node.required(1), node.required(2)
    axis = node.from_front(int(node.attributes["axis"]))
    data_shape, shape = extents_of(node.data), extents_of(indices)
    if len(shape) != len(data_shape):
        raise UnsupportedOperatorError("the ranks of its data and indices differ")
    if 0 in shape:
        return node.data
    strides = strides_of(data_shape)

    def body(data, indices, updates, out) -> None:  # type: ignore[no-untyped-def]
        _copy(data, out, data_shape)
        with T.serial(0, as_expr(prod(shape))) as i:
            places = places_of(i, shape)
            places[axis] = from_end(indices[i], data_shape[axis])
            with T.If(_inside(places[axis], data_shape[axis])), T.Then():
                at = sum(
                    (place * stride for place, stride in zip(places, strides, strict=True)),
                    tirx.const(0, _INDEX),
                )
                out[at] = merge(out[at], updates[i])

    return _emit(node, "scatter_elements", [node.data, indices, updates], data_shape, body)


def scatter_nd(node: Node) -> relax.Expr:
    """Data ``(d0, ..)``, indices ``(i0, .., k)``, updates ``(i0, .., dk, ..)`` -> as data."""
    merge = _merge(node)
    indices, updates = node.required(1), node.required(2)
    data_shape, shape = extents_of(node.data), extents_of(indices)
    if not shape or not isinstance(shape[-1], int) or shape[-1] > len(data_shape):
        raise UnsupportedOperatorError("the length of its indices does not fit its data")
    depth = shape[-1]
    rows, part = prod(shape[:-1]), prod(data_shape[depth:])
    strides = strides_of(data_shape)

    def body(data, indices, updates, out) -> None:  # type: ignore[no-untyped-def]
        _copy(data, out, data_shape)
        with T.serial(0, as_expr(rows)) as i:
            places = [
                from_end(indices[i * depth + axis], data_shape[axis]) for axis in range(depth)
            ]
            inside = [_inside(place, data_shape[axis]) for axis, place in enumerate(places)]
            with T.If(tirx.all(*inside, tirx.const(True))), T.Then():
                start = sum(
                    (place * strides[axis] for axis, place in enumerate(places)),
                    tirx.const(0, _INDEX),
                )
                with T.serial(0, as_expr(part)) as j:
                    out[start + j] = merge(out[start + j], updates[i * part + j])

    return _emit(node, "scatter_nd", [node.data, indices, updates], data_shape, body)


def _emit(
    node: Node, name: str, inputs: list[relax.Expr], shape: list[Extent], body: Callable[..., None]
) -> relax.Var:
    return emit_loops(node, name, inputs, [(shape, node.dtype)], body)[0]


def _merge(node: Node) -> Merge:
    reduction = node.attributes.get("reduction", "none")
    merges = _BOOLEAN_MERGES if node.dtype == "bool" else _MERGES
    if reduction not in merges:
        raise UnsupportedOperatorError(f"reduction {reduction}")
    return merges[reduction]


def _inside(place: tirx.Expr, extent: Extent) -> tirx.Expr:
    return tirx.all(place >= 0, place < as_expr(extent))


def _copy(data: T.Buffer, out: T.Buffer, shape: list[Extent]) -> None:
    with T.serial(0, as_expr(prod(shape))) as i:
        out[i] = data[i]
