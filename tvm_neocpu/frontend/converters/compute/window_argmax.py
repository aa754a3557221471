"""Where in its tensor the largest element of each window of a MaxPool lies.

for n, c, y, x:
        index[n, c, y, x] = min(position of data[...] for each tap if data[...] is the largest)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import relax, te, tirx

from tvm_neocpu.frontend.converters.compute.places import places_of
from tvm_neocpu.frontend.converters.geometry.windows import WindowAxis
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

_INDEX = "int64"
_HINT = "max_pool_indices"


def window_argmax(
    node: Node, largest: relax.Expr, windows: Sequence[WindowAxis], column_major: bool
) -> relax.Var:
    """``(N, C, ...)`` -> flat positions in the whole tensor, int64, one for each window.

    ``largest`` are the windows' maxima. Of equal elements the first in row-major order counts.
    ``column_major`` (``storage_order`` 1) numbers the positions inside an image so that the first
    spatial axis varies fastest.
    """
    image = [node.extent(axis) for axis in range(2, node.rank)]

    def compute(data: te.Tensor, maxima: te.Tensor) -> te.Tensor:
        return _flat(_first(data, maxima, image, windows), data.shape[1], image, column_major)

    return node.builder.emit_te(compute, node.data, largest, primfunc_name_hint=_HINT)


def shape_of_pooled(node: Node, positions: relax.Expr) -> tuple[int, ...] | None:
    """The shape of the tensor that a MaxPool took these from; ``None`` for another tensor."""
    call = node.builder.lookup_binding(positions) if isinstance(positions, relax.Var) else None
    if not isinstance(call, tvm.ir.Call) or call.op != tvm.ir.Op.get("relax.call_tir"):
        return None
    function, read = call.args[0], call.args[1]
    return static_shape_of(read[0].ty) if function.name_hint.startswith(_HINT) else None


def _first(
    data: te.Tensor, maxima: te.Tensor, image: list[int], windows: Sequence[WindowAxis]
) -> te.Tensor:
    """The first position inside its image, in row-major order, of each window's maximum.

    One value is reduced, not a pair of value and position: TVM 0.27 vectorises the update of a pair
    so that the second half reads the first half's new value.
    """
    nowhere = tirx.max_value(_INDEX)
    taps = [te.reduce_axis((0, axis.kernel), name=f"tap{i}") for i, axis in enumerate(windows)]

    def window(n: tirx.Var, c: tirx.Var, *at: tirx.Var) -> tirx.Expr:
        places = [
            start * axis.stride + tap * axis.dilation - axis.before
            for start, tap, axis in zip(at, taps, windows, strict=True)
        ]
        inside = tirx.all(
            *(place >= 0 for place in places),
            *(place < extent for place, extent in zip(places, image, strict=True)),
        )
        found = tirx.Select(
            data(n, c, *places) == maxima(n, c, *at), _row_major(places, image), nowhere
        )
        return te.min(tirx.if_then_else(inside, found, nowhere), axis=taps)

    return te.compute(maxima.shape, window, name="first")


def _flat(
    first: te.Tensor, channels: tvm.ir.Expr, image: list[int], column_major: bool
) -> te.Tensor:
    """Positions in the whole tensor, from positions inside one image."""
    size = math.prod(image)

    def flat(n: tirx.Var, c: tirx.Var, *at: tirx.Var) -> tirx.Expr:
        # A window of NaN has no maximum that equals an element; its index must stay inside too.
        place = te.min(first(n, c, *at), _index(size - 1))
        if column_major:
            place = _column_major(place, image)
        return (n * channels + c).astype(_INDEX) * _index(size) + place

    return te.compute(first.shape, flat, name="max_pool_indices")


def _index(value: int) -> tirx.Expr:
    return tirx.const(value, _INDEX)


def _row_major(places: list[tirx.Expr], image: list[int]) -> tirx.Expr:
    position = _index(0)
    for place, extent in zip(places, image, strict=True):
        position = position * _index(extent) + place.astype(_INDEX)
    return position


def _column_major(position: tirx.Expr, image: list[int]) -> tirx.Expr:
    """The same element's number when the first axis varies fastest."""
    number = _index(0)
    places = places_of(position, image)
    for place, extent in zip(reversed(places), reversed(image), strict=True):
        number = number * _index(extent) + place
    return number
