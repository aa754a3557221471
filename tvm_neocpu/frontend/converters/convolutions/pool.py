"""MaxPool, AveragePool and LpPool of 1, 2 and 3 spatial axes.

Relax's own ``ceil_mode`` keeps a window that starts in the padding behind the axis, and its
averages count what a window overhangs. So ONNX's windows become plain pads here, and Relax is never
asked for ``ceil_mode``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.window_argmax import window_argmax
from tvm_neocpu.frontend.converters.geometry.windows import WindowAxis, window_axis
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.pointwise.elementwise import whole_power

Windows = tuple[WindowAxis, ...]
Pool = Callable[..., relax.Expr]

# By the number of spatial axes.
_MAX_POOLS: dict[int, Pool] = {
    1: relax.op.nn.max_pool1d,
    2: relax.op.nn.max_pool2d,
    3: relax.op.nn.max_pool3d,
}
_AVERAGE_POOLS: dict[int, Pool] = {
    1: relax.op.nn.avg_pool1d,
    2: relax.op.nn.avg_pool2d,
    3: relax.op.nn.avg_pool3d,
}


def max_pool(node: Node) -> relax.Expr:
    """``(N, C, ...)`` -> the largest element of each window, and its place if the node asks."""
    data, windows = _windows(node)
    largest = _pooled(_MAX_POOLS, data, windows)
    if node.outputs == 1:
        return largest
    if data is not node.data:
        raise UnsupportedOperatorError("indices of windows that skip the start of an axis")
    largest = node.emit(largest)
    column_major = bool(node.attributes["storage_order"])
    return relax.Tuple([largest, window_argmax(node, largest, windows, column_major)])


def average_pool(node: Node) -> relax.Expr:
    """``(N, C, ...)`` -> the mean of each window."""
    data, windows = _windows(node)
    if not node.attributes.get("count_include_pad", 0):
        return _pooled(_AVERAGE_POOLS, data, windows, count_include_pad=False)
    if not any(axis.overhang for axis in windows):
        return _pooled(_AVERAGE_POOLS, data, windows, count_include_pad=True)
    # The padding counts, the overhang does not: only the overhang is left to Relax as padding.
    widths = [width for axis in windows for width in (axis.before, axis.after)]
    padded = node.emit(relax.op.nn.pad(data, [0, 0, 0, 0, *widths]))
    pads = [*(0 for _ in windows), *(axis.overhang for axis in windows)]
    return _pooled(_AVERAGE_POOLS, padded, windows, pads=pads, count_include_pad=False)


def lp_pool(node: Node) -> relax.Expr:
    """``(N, C, ...)`` -> the p-norm of each window."""
    data, windows = _windows(node)
    p = float(node.attributes["p"])
    if p < 1:
        raise UnsupportedOperatorError(f"p is {p:g}, below 1")

    # Padding adds nothing to a sum, so that the sum is the mean over all places times their number.
    places = math.prod(axis.kernel for axis in windows)
    terms = _power(node, node.emit(relax.op.abs(data)), p)
    mean = node.emit(_pooled(_AVERAGE_POOLS, terms, windows, count_include_pad=True))
    total = node.emit(relax.op.multiply(mean, relax.const(places, node.dtype)))
    return _root(node, total, p)


def global_lp_pool(node: Node) -> relax.Expr:
    """``(N, C, ...)`` -> the p-norm of each channel, ``(N, C, 1, ...)``."""
    p = float(node.attributes.get("p", 2))
    if p < 1:
        raise UnsupportedOperatorError(f"p is {p:g}, below 1")
    terms = _power(node, node.emit(relax.op.abs(node.data)), p)
    total = relax.op.sum(terms, list(range(2, node.rank)), keepdims=True)
    return _root(node, node.emit(total), p)


def _root(node: Node, total: relax.Expr, p: float) -> relax.Expr:
    if p == 1:
        return total
    if p == 2:
        return relax.op.sqrt(total)
    return relax.op.power(total, relax.const(1 / p, node.dtype))


def _power(node: Node, base: relax.Expr, exponent: float) -> relax.Expr:
    if exponent.is_integer():
        return whole_power(node, base, int(exponent))
    return node.emit(relax.op.power(base, relax.const(exponent, node.dtype)))


def _windows(node: Node) -> tuple[relax.Expr, Windows]:
    """The windows, and the data without what lies in front of the first ones."""
    axes = node.rank - 2
    if axes not in _MAX_POOLS:
        raise UnsupportedOperatorError(f"a pool of {axes} spatial axes; 1, 2 and 3 are supported")
    kernel = node.ints("kernel_shape", axes, default=1)
    strides = node.ints("strides", axes, default=1)
    dilations = node.ints("dilations", axes, default=1)
    pads = node.ints("pads", 2 * axes, default=0)
    if min(*kernel, *strides, *dilations) < 1:
        raise UnsupportedOperatorError("kernel_shape, strides and dilations must be positive")
    windows = tuple(
        window_axis(
            node.extent(2 + axis),
            kernel[axis],
            strides[axis],
            dilations[axis],
            (pads[axis], pads[axis + axes]),
            node.attributes["auto_pad"],
            bool(node.attributes.get("ceil_mode", 0)),
        )
        for axis in range(axes)
    )
    skipped = [max(0, -axis.before) for axis in windows]
    if not any(skipped):
        return node.data, windows
    ends = [node.extent(2 + axis) for axis in range(axes)]
    data = relax.op.strided_slice(node.data, list(range(2, node.rank)), skipped, ends)
    return node.emit(data), tuple(replace(axis, before=max(0, axis.before)) for axis in windows)


def _pooled(
    pools: dict[int, Pool],
    data: relax.Expr,
    windows: Windows,
    pads: list[int] | None = None,
    **attributes: Any,
) -> relax.Expr:
    """The Relax pool whose pads, by default, let every window fit."""
    before = [axis.before for axis in windows]
    after = [axis.after + axis.overhang for axis in windows]
    return pools[len(windows)](
        data,
        [axis.kernel for axis in windows],
        [axis.stride for axis in windows],
        [*before, *after] if pads is None else pads,
        [axis.dilation for axis in windows],
        **attributes,
    )
