"""Pad where a run computes the pads, or the extents of what they surround.

Detectors pad the boxes that are left to a fixed number of rows::

    rows: (n, 6) -> Reshape (6 n,) -> Pad [0, 6 (300 - n)] -> Reshape (300, 6)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of
from tvm_neocpu.frontend.converters.compute.run_checks import require
from tvm_neocpu.frontend.converters.known import Extent, as_expr
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.at_run_time import names_of, read

# Which element of an axis stands at a place outside it.
Source = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]


def _edge(place: tirx.Expr, extent: tirx.Expr) -> tirx.Expr:
    return tirx.max(tirx.min(place, extent - 1), tirx.const(0, "int64"))


def _reflected(place: tirx.Expr, extent: tirx.Expr) -> tirx.Expr:
    last = extent - 1
    return last - tirx.abs(last - tirx.abs(place))


_SOURCES: Mapping[str, Source] = MappingProxyType(
    {"edge": _edge, "reflect": _reflected, "wrap": tirx.floormod}
)


def pad(node: Node) -> relax.Expr:
    """``(d0, ..)`` -> ``(before + d0 + after, ..)``; negative pads crop, in mode constant only."""
    mode = node.attributes["mode"]
    if mode != "constant" and mode not in _SOURCES:
        raise UnsupportedOperatorError(f"mode {mode}")
    own = extents_of(node.data)
    before, after = _widths(node, len(own))
    sums = [
        node.extents.simple(as_expr(low) + as_expr(extent) + as_expr(high))
        for low, extent, high in zip(before, own, after, strict=True)
    ]
    _check(node, mode, own, (before, after), sums)
    shape = names_of(node, sums, [f"padded_{axis}" for axis in range(len(own))])
    firsts = [as_expr(low) for low in before]
    shape = [as_expr(extent) for extent in shape]
    if mode == "constant":
        given = [node.data, _value(node), shape, firsts]
        return node.builder.emit_te(_around, *given, primfunc_name_hint="pad")
    compute = _from_inside(_SOURCES[mode])
    return node.builder.emit_te(compute, node.data, shape, firsts, primfunc_name_hint="pad")


def _widths(node: Node, rank: int) -> tuple[list[Extent], list[Extent]]:
    """Pads before and after each axis of the data."""
    given = node.attributes.get("pads", node.attributes.get("paddings"))
    values = read(node, 1) if given is None else np.array(given, object)
    pads = [] if values is None else list(values.flat)
    axes = node.constant(3)
    places = list(range(rank)) if axes is None else [int(axis) for axis in axes.ravel()]
    if len(pads) != 2 * len(places) or any(not -rank <= axis < rank for axis in places):
        raise UnsupportedOperatorError(f"{len(pads)} pads for axes {places} of {rank}")
    before: list[Extent] = [0] * rank
    after: list[Extent] = [0] * rank
    for number, axis in enumerate(places):
        before[axis], after[axis] = pads[number], pads[number + len(places)]
    return before, after


def _check(
    node: Node,
    mode: str,
    own: Sequence[Extent],
    widths: tuple[Sequence[Extent], Sequence[Extent]],
    sums: Sequence[Extent],
) -> None:
    """Let a run fail where pads remove more than there is, or mirror what there is not."""
    zero = tirx.const(0, "int64")
    conditions = [as_expr(extent) >= zero for extent in sums]
    for axis, extent in enumerate(own):
        for width in (side[axis] for side in widths):
            if mode == "constant" or (isinstance(width, int) and width == 0):
                continue
            conditions.append(as_expr(width) >= zero)
            least = as_expr(width) if mode == "reflect" else zero
            conditions.append(as_expr(extent) > least)
    require(node, conditions)


def _value(node: Node) -> relax.Expr:
    """What mode constant fills with, ``(1,)``."""
    value = node.input(2)
    if value is None:
        filled = np.full([1], node.attributes.get("value", 0.0), node.dtype)
        return relax.const(filled, node.dtype)
    return node.emit(relax.op.reshape(value, [1]))


def _around(
    data: te.Tensor, value: te.Tensor, shape: list[tirx.Expr], firsts: list[tirx.Expr]
) -> te.Tensor:
    def element(*at: tirx.Var) -> tirx.Expr:
        places = [place - first for place, first in zip(at, firsts, strict=True)]
        inside = tirx.all(
            *(place >= 0 for place in places),
            *(place < extent for place, extent in zip(places, data.shape, strict=True)),
        )
        return tirx.if_then_else(inside, data(*places), value[0])

    return te.compute(shape, element, name="padded")


def _from_inside(source: Source) -> Callable[..., te.Tensor]:
    def compute(data: te.Tensor, shape: list[tirx.Expr], firsts: list[tirx.Expr]) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            places = zip(at, firsts, data.shape, strict=True)
            return data(*(source(place - first, extent) for place, first, extent in places))

        return te.compute(shape, element, name="padded")

    return compute
