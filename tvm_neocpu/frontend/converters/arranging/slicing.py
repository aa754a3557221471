"""Slice, Split, SplitToSequence where TVM's importer fails: old opsets, empty or uneven parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Array, Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


def slice_(node: Node) -> relax.Expr:
    """Elements from ``starts`` to ``ends`` by ``steps`` along ``axes``, as Python slices have them.

    TVM's importer takes what is computed at run time and data of unknown extents.
    """
    if node.opset >= 10:
        try:
            given = [node.constant(place) for place in range(1, 5)]
        except UnsupportedOperatorError:
            return node.by_tvm()
    else:
        given = [_array(node.attributes.get(name)) for name in ("starts", "ends", "axes")]
        given.append(None)
    starts, ends, axes, steps = ([] if part is None else part.ravel().tolist() for part in given)
    shape = static_shape_of(node.data.ty) if isinstance(node.data.ty, relax.TensorType) else None
    if shape is None:
        return node.by_tvm()
    axes = axes or list(range(len(starts)))
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise UnsupportedOperatorError(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise UnsupportedOperatorError(f"axes {axes} of data of rank {len(shape)}")
    places = [
        slice(start, end, step).indices(shape[axis])
        for start, end, step, axis in zip(starts, ends, steps, axes, strict=True)
    ]
    result = list(shape)
    for axis, (start, end, step) in zip(axes, places, strict=True):
        result[axis] = len(range(start, end, step))
    if 0 in result:
        return _empty(result, node.dtype)
    pairs = list(zip(places, axes, strict=True))
    return relax.op.strided_slice(
        node.data,
        [axis % len(shape) for axis in axes],
        [start for start, _, _ in places],
        # Relax counts a negative end from the end; this one lies before the first element.
        [end if end >= 0 else -shape[axis] - 1 for (_, end, _), axis in pairs],
        [step for _, _, step in places],
    )


def split(node: Node) -> relax.Expr:
    """Parts of equal length, the last one shorter, or of given lengths, some perhaps 0."""
    axis, extent = _axis(node)
    lengths = _checked(_lengths(node, extent), extent)
    if len(lengths) == 1:
        return node.data
    if min(lengths) > 0:
        return relax.op.split(node.data, np.cumsum(lengths[:-1]).tolist(), axis)
    return relax.Tuple(_parts(node, axis, lengths))


def split_to_sequence(node: Node) -> relax.Expr:
    """Pieces of so many elements as ``split`` says, or of the lengths that it lists.

    Without ``split`` each piece has one element, and with ``keepdims`` 0 it has no such axis.
    """
    axis, extent = _axis(node)
    given = node.constant(1) if node.input(1) is not None else None
    if given is not None and given.ndim:
        lengths = [int(length) for length in given.ravel()]
    else:
        piece = 1 if given is None else int(given.item())
        if piece < 1:
            raise UnsupportedOperatorError(f"pieces of {piece} elements")
        lengths = [min(piece, extent - begin) for begin in range(0, extent, piece)]
    pieces = _parts(node, axis, _checked(lengths, extent))
    if given is None and not node.attributes["keepdims"]:
        pieces = [node.emit(relax.op.squeeze(piece, [axis])) for piece in pieces]
    return relax.Tuple(pieces)


def _axis(node: Node) -> tuple[int, int]:
    """The attribute, counted from the front, and the extent there."""
    axis = node.from_front(int(node.attributes.get("axis", 0)))
    return axis, node.extent(axis)


def _checked(lengths: list[int], extent: int) -> list[int]:
    if sum(lengths) != extent or min(lengths, default=0) < 0:
        raise UnsupportedOperatorError(f"parts {lengths} of an axis of {extent}")
    return lengths


def _parts(node: Node, axis: int, lengths: Sequence[int]) -> list[relax.Expr]:
    ends = np.cumsum(lengths, dtype="int64").tolist()
    return [_part(node, axis, end - length, end) for length, end in zip(lengths, ends, strict=True)]


def _lengths(node: Node, extent: int) -> list[int]:
    given = node.attributes.get("split")
    values = _array(given) if given is not None else node.constant(1)
    if values is not None:
        return [int(value) for value in values.ravel()]
    parts = int(node.attributes.get("num_outputs", node.outputs))
    length = -(-extent // parts)
    return [max(min(length, extent - place * length), 0) for place in range(parts)]


def _part(node: Node, axis: int, begin: int, end: int) -> relax.Expr:
    if begin < end:
        return node.emit(relax.op.strided_slice(node.data, [axis], [begin], [end]))
    shape = [node.extent(place) for place in range(node.rank)]
    shape[axis] = 0
    return _empty(shape, node.dtype)


def _empty(shape: Sequence[int], dtype: str) -> relax.Expr:
    return relax.const(np.zeros(shape, dtype), dtype)


def _array(values: Sequence[int] | None) -> Array | None:
    return None if values is None else np.array(values, "int64")
