"""DeformConv of two spatial axes, the only kind that ONNX Runtime and ONNX's reference compute."""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions
from tvm_neocpu.relay_passes.operators.new.deform_conv2d import deform_conv2d

SPATIAL = 2


def deform_conv(node: Node) -> relax.Expr:
    """``(N, C, H, W)``, weight, offset, and perhaps bias and mask -> ``(N, K, OH, OW)``."""
    if node.rank != 2 + SPATIAL:
        raise UnsupportedOperatorError(f"{node.rank - 2} spatial axes; 2 are supported")
    weight, offset, bias, mask = node.required(1), node.required(2), node.input(3), node.input(4)
    _check_kernel(node, weight)
    strides = node.ints("strides", SPATIAL, default=1)
    dilations = node.ints("dilations", SPATIAL, default=1)
    pads = node.ints("pads", 2 * SPATIAL, default=0)
    if min(*strides, *dilations) < 1 or min(pads) < 0:
        raise UnsupportedOperatorError("strides and dilations must be positive, pads not negative")
    moves = [offset] if mask is None else [offset, mask]
    value = node.emit(
        deform_conv2d(
            [node.data, weight, *moves],
            strides,
            pads,
            dilations,
            node.attributes["group"],
            node.attributes["offset_group"],
        )
    )
    if bias is None:
        return value
    shaped = node.emit(relax.op.reshape(bias, [1, -1, 1, 1]))
    return relax.op.add(value, shaped)


def _check_kernel(node: Node, weight: relax.Expr) -> None:
    """``kernel_shape`` must repeat the weight's own extents."""
    extents = dimensions(weight.ty) or ()
    named = node.attributes.get("kernel_shape")
    if named is not None and tuple(named) != tuple(extents[2:]):
        raise UnsupportedOperatorError(f"kernel_shape {named} is not the weight's, {extents[2:]}")
