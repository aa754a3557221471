"""ConvTranspose of 1, 2 and 3 spatial axes.

Relax gets plain pads only, computed here from ``auto_pad``, ``output_shape`` and
``output_padding``. A convolution of one axis becomes one of two, whose first has extent 1: the
passes and templates for two axes then take it.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.transposed_axis import TransposedAxis, transposed_axis
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

Axes = tuple[TransposedAxis, ...]

# An axis of extent 1, put before a convolution's only one.
_POINT = TransposedAxis(kernel=1, stride=1, dilation=1)
# By the number of spatial axes.
_CONVOLUTIONS: dict[int, Callable[..., relax.Expr]] = {
    2: relax.op.nn.conv2d_transpose,
    3: relax.op.nn.conv3d_transpose,
}


def conv_transpose(node: Node) -> relax.Expr:
    """``(N, C, ...)`` and ``(C, K / group, ...)`` -> ``(N, K, ...)``; a bias of K is optional."""
    axes, data, weight, bias = _axes(node), node.data, node.required(1), node.input(2)
    if len(axes) == 1:
        axes = (_POINT, *axes)
        data, weight = (node.emit(relax.op.expand_dims(expr, 2)) for expr in (data, weight))
    value = node.emit(
        _CONVOLUTIONS[len(axes)](
            data,
            weight,
            strides=[axis.stride for axis in axes],
            padding=[*(axis.crop_before for axis in axes), *(axis.crop_after for axis in axes)],
            output_padding=[axis.output_padding for axis in axes],
            dilation=[axis.dilation for axis in axes],
            groups=node.attributes["group"],
        )
    )
    if any(axis.zeros for axis in axes):
        widths = [width for axis in axes for width in (0, axis.zeros)]
        value = node.emit(relax.op.nn.pad(value, [0, 0, 0, 0, *widths]))
    if bias is not None:
        shaped = node.emit(relax.op.reshape(bias, [1, -1, *(1 for _ in axes)]))
        value = node.emit(relax.op.add(value, shaped))
    return node.emit(relax.op.squeeze(value, [2])) if node.rank == 3 else value


def _axes(node: Node) -> Axes:
    count = node.rank - 2
    if count not in (1, 2, 3):
        raise UnsupportedOperatorError(f"{count} spatial axes; 1, 2 and 3 are supported")
    kernel = _kernel(node, count)
    strides = node.ints("strides", count, default=1)
    dilations = node.ints("dilations", count, default=1)
    pads = node.ints("pads", 2 * count, default=0)
    output_padding = node.ints("output_padding", count, default=0)
    has_sizes = "output_shape" in node.attributes
    sizes = node.ints("output_shape", count, default=0) if has_sizes else (None,) * count
    if min(*kernel, *strides, *dilations) < 1:
        raise UnsupportedOperatorError("kernel, strides and dilations must be positive")
    return tuple(
        transposed_axis(
            node.extent(2 + axis),
            kernel[axis],
            strides[axis],
            dilations[axis],
            (pads[axis], pads[count + axis]),
            output_padding[axis],
            sizes[axis],
            node.attributes["auto_pad"],
        )
        for axis in range(count)
    )


def _kernel(node: Node, count: int) -> tuple[int, ...]:
    """The weight's own spatial extents; ``kernel_shape`` must repeat them."""
    extents = dimensions(node.required(1).ty)
    if extents is None or len(extents) != 2 + count or None in extents:
        raise UnsupportedOperatorError(f"its weight is not a tensor of {2 + count} known extents")
    kernel = tuple(extent for extent in extents[2:] if extent is not None)
    named = node.attributes.get("kernel_shape", kernel)
    if tuple(named) != kernel:
        raise UnsupportedOperatorError(f"kernel_shape {named} is not the weight's, {kernel}")
    return kernel
