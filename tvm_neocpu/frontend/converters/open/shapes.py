"""Reshape, Expand, ConstantOfShape, Range, Tile and Flatten to extents that a run computes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import numpy_helper
from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.compute.run_checks import require, require_within
from tvm_neocpu.frontend.converters.known import Extent, as_expr
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.at_run_time import (
    at_extents,
    equal,
    names_of,
    read,
)
from tvm_neocpu.frontend.converters.open.broadcast import broadcast, common_extents


def reshape(node: Node) -> relax.Expr:
    """Reshape to numbers, computed or not: 0 keeps an extent, -1 takes what the others leave."""
    given = node.attributes.get("shape")
    target = list(given) if given is not None else list(_required(node, 1))
    return _reshaped(node, target, bool(node.attributes.get("allowzero", 0)))


def flatten(node: Node) -> relax.Expr:
    """``(d0, .., dk)`` -> ``(d0 .. d(axis-1), the rest)``."""
    own = extents_of(node.data)
    axis = int(node.attributes["axis"])
    if not -len(own) <= axis <= len(own):
        raise UnsupportedOperatorError(f"axis {axis} is outside data of rank {len(own)}")
    axis = axis + len(own) if axis < 0 else axis
    parts = (own[:axis], own[axis:])
    return _resized(node, [math.prod(part) for part in parts])


def _reshaped(node: Node, target: Sequence[Extent], keep_zeros: bool) -> relax.Expr:
    own = extents_of(node.data)
    known = node.extents
    extents: list[Extent] = []
    free = None
    for place, extent in enumerate(target):
        if isinstance(extent, int) and extent == 0 and not keep_zeros:
            if place >= len(own):
                raise UnsupportedOperatorError(f"extent {place} of its result is 0")
            extents.append(own[place])
        elif isinstance(extent, int) and extent == -1:
            free = place
            extents.append(1)
        elif isinstance(extent, int) or known.proves(as_expr(extent) >= 0):
            extents.append(extent)
        else:
            extents.append(_of_run_time(extent, own, place, target, keep_zeros))
    if free is not None:
        extents[free] = _rest(node, own, extents)
    return _resized(node, extents)


def _of_run_time(
    extent: tirx.Expr, own: Sequence[Extent], place: int, target: Sequence[Extent], zeros: bool
) -> tirx.Expr:
    """An extent that may be a run's -1 or 0."""
    kept = extent
    if not zeros and place < len(own):
        kept = tirx.Select(equal(extent, 0), as_expr(own[place]), extent)
    others = [
        tirx.Select(
            equal(other, 0) if not zeros else tirx.const(False, "bool"),
            as_expr(own[at]) if at < len(own) else tirx.const(1, "int64"),
            as_expr(other),
        )
        for at, other in enumerate(target)
        if at != place
    ]
    left = tirx.floordiv(
        as_expr(math.prod(own)), tirx.max(as_expr(math.prod(others)), tirx.const(1, "int64"))
    )
    return tirx.Select(equal(extent, -1), left, kept)


def _rest(node: Node, own: Sequence[Extent], others: Sequence[Extent]) -> Extent:
    """What the other extents leave; extents that both shapes have cancel out."""
    above, below = list(own), []
    for extent in others:
        same = [at for at, other in enumerate(above) if node.extents.same(extent, other)]
        if same:
            del above[same[0]]
        else:
            below.append(extent)
    total, divisor = math.prod(above), math.prod(below)
    if isinstance(divisor, int):
        divisor = max(divisor, 1)
        if isinstance(total, int):
            return total // divisor
        return node.extents.simple(tirx.floordiv(total, tirx.const(divisor, "int64")))
    return tirx.floordiv(as_expr(total), tirx.max(divisor, tirx.const(1, "int64")))


def _resized(node: Node, extents: Sequence[Extent]) -> relax.Expr:
    """The data with other extents; a run checks that they have as many elements."""
    own = extents_of(node.data)
    one, other = math.prod(own), math.prod(extents)
    if not node.extents.same(one, other):
        require(node, [equal(one, other)])
    shape = names_of(node, extents, [f"reshaped_{place}" for place in range(len(extents))])
    return relax.op.reshape(node.data, relax.ShapeExpr([as_expr(extent) for extent in shape]))


def expand(node: Node) -> relax.Expr:
    """The data broadcast with a shape."""
    shape = list(_required(node, 1))
    extents = common_extents(node, [extents_of(node.data), shape])
    return broadcast(node, node.data, extents)


def constant_of_shape(node: Node) -> relax.Expr:
    """One value in a shape."""
    extents = list(_required(node, 0))
    tensor = node.attributes.get("value")
    value = np.zeros(1, "float32") if tensor is None else numpy_helper.to_array(tensor)
    if all(isinstance(extent, int) for extent in extents):
        return relax.const(np.full(extents, value.item(), value.dtype), str(value.dtype))
    require_within(node, extents)
    extents = names_of(node, extents, [f"filled_{place}" for place in range(len(extents))])
    scalar = relax.const(value.reshape(()), str(value.dtype))
    return relax.op.full(relax.ShapeExpr([as_expr(extent) for extent in extents]), scalar)


def range_(node: Node) -> relax.Expr:
    """``start, start + delta, ..`` below ``limit``; whole numbers."""
    dtype = node.dtype
    if dtype not in ("int32", "int64"):
        return node.by_tvm()
    start, limit, delta = (read(node, place).item() for place in range(3))
    if delta == 0:
        raise UnsupportedOperatorError("its step is 0")
    require(node, [tirx.NE(as_expr(delta), tirx.const(0, "int64"))])
    length = (
        -((start - limit) // delta) if _ints(start, limit, delta) else _negated(start, limit, delta)
    )
    count = node.extents.simple(
        max(length, 0) if isinstance(length, int) else tirx.max(length, tirx.const(0, "int64"))
    )
    (count,) = names_of(node, [count], ["counted"])

    def compute(count: tirx.Expr, start: tirx.Expr, delta: tirx.Expr) -> te.Tensor:
        return te.compute((count,), lambda at: tirx.Cast(dtype, start + at * delta), name="range")

    given = [as_expr(number) for number in (count, start, delta)]
    return node.builder.emit_te(compute, *given, primfunc_name_hint="range")


def _ints(*given: Extent) -> bool:
    return all(isinstance(number, int) for number in given)


def _negated(start: Extent, limit: Extent, delta: Extent) -> tirx.Expr:
    """``ceil((limit - start) / delta)``."""
    if isinstance(delta, int) and delta == 1:
        return as_expr(limit) - as_expr(start)
    return -tirx.floordiv(as_expr(start) - as_expr(limit), as_expr(delta))


def tile(node: Node) -> relax.Expr:
    """The data repeated along each axis."""
    own, repeats = extents_of(node.data), list(_required(node, 1))
    if len(own) != len(repeats):
        raise UnsupportedOperatorError(f"{len(repeats)} repeats for data of rank {len(own)}")
    require_within(node, repeats)
    products = [
        as_expr(extent) * as_expr(count) for extent, count in zip(own, repeats, strict=True)
    ]
    extents = names_of(node, products, [f"tiled_{place}" for place in range(len(own))])

    def compute(data: te.Tensor, shape: list[tirx.Expr]) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            return data(*(tirx.floormod(i, dim) for i, dim in zip(at, data.shape, strict=True)))

        return te.compute(shape, element, name="tile")

    shape = [as_expr(extent) for extent in extents]
    return node.builder.emit_te(compute, node.data, shape, primfunc_name_hint="tile")


def squeeze(node: Node) -> relax.Expr:
    """Axes of length 1 dropped; a run checks those that it computes."""
    own = extents_of(node.data)
    axes = node.attributes.get("axes")
    if axes is None and node.input(1) is not None:
        axes = [int(axis) for axis in node.constant(1).ravel()]
    if axes is None:
        axes = [axis for axis, extent in enumerate(own) if extent == 1]
        if any(not isinstance(extent, int) for extent in own):
            raise UnsupportedOperatorError("the rank of its result is not known at import")
    if any(not -len(own) <= axis < len(own) for axis in axes):
        raise UnsupportedOperatorError(f"axes {list(axes)} of data of rank {len(own)}")
    dropped = {int(axis) % len(own) for axis in axes}
    shape = [1 if axis in dropped else extent for axis, extent in enumerate(own)]
    data = at_extents(node, node.data, shape)
    return relax.op.squeeze(data, sorted(dropped)) if dropped else data


def _required(node: Node, place: int) -> list[Extent]:
    values = read(node, place)
    if values is None:
        raise UnsupportedOperatorError(f"input {place} is missing")
    return list(values.flat)
