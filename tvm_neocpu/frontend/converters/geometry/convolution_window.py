"""The window of a convolution node: how it moves, and what ``auto_pad`` means in pads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.windows import SAME, check_auto_pad, room_of
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

# By the number of spatial axes.
_CONVOLUTIONS: Mapping[int, Callable[..., relax.Expr]] = MappingProxyType(
    {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}
)


class ConvolutionWindow(NamedTuple):
    """What Relax's convolutions take after data and weight, in their order.

    ``padding`` has what lies in front of every axis, then what lies behind.
    """

    strides: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def convolution_of(node: Node) -> Callable[..., relax.Expr]:
    """Relax's convolution over as many axes as the node's data has.

    Raises UnsupportedOperatorError for another number of spatial axes than 1, 2 and 3.
    """
    axes = node.rank - 2
    if axes not in _CONVOLUTIONS:
        raise UnsupportedOperatorError(f"{axes} spatial axes; 1, 2 and 3 are supported")
    return _CONVOLUTIONS[axes]


def convolution_window(node: Node, kernel: Sequence[int]) -> ConvolutionWindow:
    """The window of a node whose weight has these spatial extents.

    Raises UnsupportedOperatorError for attributes that ONNX does not allow, for negative pads, and
    where the window does not fit into the padded data.
    """
    axes = len(kernel)
    strides = node.ints("strides", axes, default=1)
    dilations = node.ints("dilations", axes, default=1)
    if min(*strides, *dilations) < 1:
        raise UnsupportedOperatorError("strides and dilations must be positive")
    pads = _pads(node, kernel, strides, dilations)
    lengths = (dimensions(node.data.ty) or ())[2:]
    for axis, length in enumerate(lengths):
        if length is not None:
            room_of(length + pads[axis] + pads[axes + axis], kernel[axis], dilations[axis])
    return ConvolutionWindow(list(strides), pads, list(dilations), int(node.attributes["group"]))


def _pads(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    auto, axes = node.attributes["auto_pad"], len(kernel)
    check_auto_pad(auto)
    if auto == "VALID":
        return [0] * (2 * axes)
    if auto not in SAME:
        pads = node.ints("pads", 2 * axes, default=0)
        if min(pads) < 0:
            raise UnsupportedOperatorError(f"pads {list(pads)} are negative")
        return list(pads)
    totals = [
        max(0, (-(-length // stride) - 1) * stride + (extent - 1) * dilation + 1 - length)
        for length, extent, stride, dilation in zip(
            (node.extent(2 + axis) for axis in range(axes)), kernel, strides, dilations, strict=True
        )
    ]
    smaller, larger = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return smaller + larger if auto == "SAME_UPPER" else larger + smaller
