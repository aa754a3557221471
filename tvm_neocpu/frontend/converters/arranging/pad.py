"""Pad: every mode, any axes; negative pads crop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax, te, tirx, topi

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

# ONNX's mode -> Relax's, of modes that repeat the data.
_REPEATING = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}
Widths = tuple[list[int], list[int]]


def pad(node: Node) -> relax.Expr:
    """``(d0, ..)`` -> ``(before + d0 + after, ..)``. Pads must be constants, the value need not.

    A negative pad crops first; the other modes then read what is left.
    """
    mode = node.attributes["mode"]
    if mode != "constant" and mode not in _REPEATING:
        raise UnsupportedOperatorError(f"mode {mode}")
    before, after = _widths(node)
    data = _cropped(node, before, after)
    before, after = ([max(width, 0) for width in side] for side in (before, after))
    if not any(before) and not any(after):
        return data
    if mode == "constant":
        return _with_value(node, data, before, after)
    _check_source(mode, data, before, after)
    widths = [width for pair in zip(before, after, strict=True) for width in pair]
    return node.emit(relax.op.nn.pad(data, widths, _REPEATING[mode]))


def _check_source(mode: str, data: relax.Expr, before: Sequence[int], after: Sequence[int]) -> None:
    """Raises UnsupportedOperatorError where there is too little to repeat.

    A mirror repeats all elements of an axis but the one at the border.
    """
    for axis, extent in enumerate(dimensions(data.ty) or ()):
        width = max(before[axis], after[axis])
        least = 1 + (width if mode == "reflect" else 0)
        if extent is not None and width and extent < least:
            raise UnsupportedOperatorError(
                f"mode {mode} needs {least} elements along axis {axis} for {width} more, "
                f"and has {extent}"
            )


def _widths(node: Node) -> Widths:
    """Pads before and after each axis of the data."""
    given = node.attributes.get("pads", node.attributes.get("paddings"))
    values = node.constant(1) if given is None else np.array(given)
    pads = [] if values is None else [int(value) for value in values.ravel()]
    axes = node.constant(3)
    places = list(range(node.rank)) if axes is None else [int(axis) for axis in axes.ravel()]
    if len(pads) != 2 * len(places) or any(not -node.rank <= at < node.rank for at in places):
        raise UnsupportedOperatorError(f"{len(pads)} pads for axes {places} of {node.rank}")
    sides: Widths = ([0] * node.rank, [0] * node.rank)
    for number, axis in enumerate(places):
        sides[0][axis] = pads[number]
        sides[1][axis] = pads[number + len(places)]
    return sides


def _cropped(node: Node, before: Sequence[int], after: Sequence[int]) -> relax.Expr:
    """The data without what negative pads remove."""
    axes = [axis for axis in range(node.rank) if before[axis] < 0 or after[axis] < 0]
    if not axes:
        return node.data
    begins = [max(-before[axis], 0) for axis in axes]
    ends = [node.extent(axis) + min(after[axis], 0) for axis in axes]
    if any(begin >= end for begin, end in zip(begins, ends, strict=True)):
        raise UnsupportedOperatorError("negative pads leave no element")
    return node.emit(relax.op.strided_slice(node.data, axes, begins, ends))


def _with_value(
    node: Node, data: relax.Expr, before: Sequence[int], after: Sequence[int]
) -> relax.Expr:
    try:
        constant = node.constant(2)
    except UnsupportedOperatorError:
        return _with_run_time_value(node, data, before, after)
    value = node.attributes.get("value", 0.0) if constant is None else constant.item()
    return node.builder.emit_te(topi.nn.pad, data, list(before), list(after), value)


def _with_run_time_value(
    node: Node, data: relax.Expr, before: Sequence[int], after: Sequence[int]
) -> relax.Expr:
    value = node.emit(relax.op.reshape(node.required(2), [1]))

    def compute(data: te.Tensor, value: te.Tensor) -> te.Tensor:
        shape = [
            low + extent + high for low, extent, high in zip(before, data.shape, after, strict=True)
        ]

        def element(*at: tirx.Var) -> tirx.Expr:
            places = [place - low for place, low in zip(at, before, strict=True)]
            inside = tirx.all(
                *(place >= 0 for place in places),
                *(place < extent for place, extent in zip(places, data.shape, strict=True)),
            )
            return tirx.if_then_else(inside, data(*places), value[0])

        return te.compute(shape, element, name="padded")

    return node.builder.emit_te(compute, data, value, primfunc_name_hint="pad")
