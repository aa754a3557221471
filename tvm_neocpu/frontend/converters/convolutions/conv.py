"""Conv of 1, 2 and 3 spatial axes: ``auto_pad`` becomes pads of the convolution itself."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.convolution_window import (
    convolution_of,
    convolution_window,
)
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions


def conv(node: Node) -> relax.Expr:
    """``(N, C, ...)`` and ``(K, C / group, ...)`` -> ``(N, K, ...)``; a bias of K is optional."""
    convolution = convolution_of(node)
    weight, bias = node.required(1), node.input(2)
    window = convolution_window(node, _kernel(node, weight))
    value = node.emit(convolution(node.data, weight, *window))
    if bias is None:
        return value
    along_channels = [1, -1, *(1 for _ in window.strides)]
    return relax.op.add(value, node.emit(relax.op.reshape(bias, along_channels)))


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
