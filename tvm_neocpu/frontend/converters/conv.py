"""Conv of 1, 2 and 3 spatial axes: ``auto_pad`` becomes pads of the convolution itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.windows import SAME, check_auto_pad
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

# By the number of spatial axes.
_CONVOLUTIONS: Mapping[int, Callable[..., relax.Expr]] = MappingProxyType(
    {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}
)


def conv(node: Node) -> relax.Expr:
    """``(N, C, ...)`` and ``(K, C / group, ...)`` -> ``(N, K, ...)``; a bias of K is optional."""
    axes = node.rank - 2
    if axes not in _CONVOLUTIONS:
        raise UnsupportedOperatorError(f"{axes} spatial axes; 1, 2 and 3 are supported")
    strides = node.ints("strides", axes, default=1)
    dilations = node.ints("dilations", axes, default=1)
    if min(*strides, *dilations) < 1:
        raise UnsupportedOperatorError("strides and dilations must be positive")
    weight, bias = node.required(1), node.input(2)
    value = node.emit(
        _CONVOLUTIONS[axes](
            node.data,
            weight,
            list(strides),
            _pads(node, _kernel(node, weight), strides, dilations),
            list(dilations),
            int(node.attributes["group"]),
        )
    )
    if bias is None:
        return value
    return relax.op.add(value, node.emit(relax.op.reshape(bias, [1, -1, *(1 for _ in strides)])))


def _kernel(node: Node, weight: relax.Expr) -> tuple[int, ...]:
    """The weight's own spatial extents; ``kernel_shape`` must repeat them."""
    extents = dimensions(weight.ty)
    if extents is None or len(extents) != node.rank or None in extents[2:]:
        raise UnsupportedOperatorError(f"its weight is not a tensor of {node.rank} known extents")
    kernel = tuple(extent for extent in extents[2:] if extent is not None)
    named = node.attributes.get("kernel_shape", kernel)
    if tuple(named) != kernel:
        raise UnsupportedOperatorError(f"kernel_shape {named} is not the weight's, {kernel}")
    return kernel


def _pads(
    node: Node, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
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
