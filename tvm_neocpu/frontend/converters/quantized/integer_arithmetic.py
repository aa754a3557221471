"""MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv: exact sums in int32.

    y = saturate(round((a - a_zero) @ (b - b_zero) * (a_scale * b_scale / y_scale)) + y_zero)

With uint8 data and constant weights, products of the integers as they are, which templates compute;
what the data's zero point contributes is subtracted behind them. Anything else is plain arithmetic.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.geometry.convolution_window import (
    ConvolutionWindow,
    convolution_of,
    convolution_window,
)
from tvm_neocpu.frontend.converters.node import Array, Node
from tvm_neocpu.frontend.converters.quantized.quantize import scalar
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of
from tvm_neocpu.relay_passes.quantized.encoding import integer_weight


def matmul_integer(node: Node) -> relax.Expr:
    """``(.., m, k) @ (.., k, n)`` of 8-bit integers -> int32."""
    return _matmul(node, (0, 2), (1, 3))


def conv_integer(node: Node) -> relax.Expr:
    """A convolution of 8-bit integers -> int32; the padding is the data's zero point."""
    return _conv(node, (0, 2), (1, 3))


def qlinear_matmul(node: Node) -> relax.Expr:
    """Inputs a, scale, zero, b, scale, zero, y_scale, y_zero."""
    total = _matmul(node, (0, 2), (3, 5))
    scale = node.emit(relax.op.multiply(_rows(node, 1), node.required(4)))
    return _quantized(node, total, scale)


def qlinear_conv(node: Node) -> relax.Expr:
    """Inputs x, scale, zero, w, scale, zero, y_scale, y_zero, and an int32 bias."""
    total = _conv(node, (0, 2), (3, 5))
    bias = node.input(8)
    if bias is not None:
        total = node.emit(relax.op.add(total, _along_channels(node, bias, leading=1)))
    weight_scale = _along_channels(node, node.required(4), leading=1)
    return _quantized(node, total, node.emit(relax.op.multiply(node.required(1), weight_scale)))


def _matmul(node: Node, left: tuple[int, int], right: tuple[int, int]) -> relax.Var:
    product = _constant_matmul(node, left, right)
    if product is not None:
        return product
    zero = None if node.input(left[1]) is None else _rows(node, left[1])
    a = _centered(node, node.required(left[0]), zero)
    b = _centered(node, node.required(right[0]), node.input(right[1]))
    return node.emit(relax.op.matmul(a, b, out_dtype="int32"))


def _constant_matmul(node: Node, left: tuple[int, int], right: tuple[int, int]) -> relax.Var | None:
    """``a @ b - a_zero * sum(b)``; ``None`` unless a is uint8 of one zero point, b constant."""
    weight, zero = _differences(node, right, leading=0), node.input(left[1])
    data = node.required(left[0])
    one = zero is None or static_shape_of(zero.ty) in ((), (1,))
    if weight is None or weight.ndim != 2 or str(data.ty.dtype) != "uint8" or not one:
        return None
    product = relax.op.matmul(data, integer_weight(weight), out_dtype="int32")
    return _corrected(node, node.emit(product), zero, weight.sum(axis=0))


def _differences(node: Node, places: tuple[int, int], leading: int) -> Array | None:
    """Constant weights less their zero point, in int32; ``None`` if they are computed."""
    weight = node.known(places[0])
    if weight is None or node.input(places[1]) is None:
        return None if weight is None else weight.astype("int32")
    zero = node.known(places[1])
    if zero is None or zero.ndim > 1:
        return None
    if zero.size > 1 and leading:
        zero = zero.reshape(-1, *[1] * leading)
    return weight.astype("int32") - zero.astype("int32")


def _corrected(node: Node, product: relax.Var, zero: relax.Expr | None, sums: Array) -> relax.Var:
    """The product less ``zero * sums``; the zero point may be computed."""
    if zero is None:
        return product
    wide = node.emit(relax.op.astype(scalar(node, zero), "int32"))
    share = node.emit(relax.op.multiply(wide, relax.const(sums.astype("int32"))))
    return node.emit(relax.op.subtract(product, share))


def _rows(node: Node, place: int) -> relax.Expr:
    """A scale or zero point of ``a``; a vector has one value for each row."""
    value = node.required(place)
    dims = static_shape_of(value.ty)
    if dims is None or len(dims) != 1 or dims == (1,):
        return value
    return node.emit(relax.op.expand_dims(value, 1))


def _conv(node: Node, data: tuple[int, int], weight: tuple[int, int]) -> relax.Var:
    convolution = convolution_of(node)
    kernel = static_shape_of(node.required(weight[0]).ty)
    if kernel is None or len(kernel) != node.rank:
        raise UnsupportedOperatorError("the shape of its weights is not known at import")
    window = convolution_window(node, kernel[2:])
    product = _constant_conv(node, data, weight, window)
    if product is not None:
        return product
    zero = node.input(weight[1])
    if zero is not None:
        zero = _along_channels(node, zero, leading=0)
    return node.emit(
        convolution(
            _centered(node, node.required(data[0]), node.input(data[1])),
            _centered(node, node.required(weight[0]), zero),
            *window,
            out_dtype="int32",
        )
    )


def _constant_conv(
    node: Node, data: tuple[int, int], weight: tuple[int, int], window: ConvolutionWindow
) -> relax.Var | None:
    """``conv(x, w) - x_zero * sums``; ``None`` unless x is a uint8 image and w constant.

    ``sums`` are of the taps that lie inside the image, because the product pads by 0.
    """
    values, image = _differences(node, weight, leading=node.rank - 1), node.required(data[0])
    if values is None or node.rank != 4 or str(image.ty.dtype) != "uint8":
        return None
    product = relax.op.nn.conv2d(image, integer_weight(values), *window, out_dtype="int32")
    sums = values.sum(axis=1)
    if not any(window.padding):
        totals = sums.sum(axis=(1, 2)).reshape(-1, 1, 1)
    else:
        rows, columns = (
            _inside(node.extent(2 + axis), sums.shape[1 + axis], window, axis) for axis in (0, 1)
        )
        totals = np.einsum("okl,yk,xl->oyx", sums, rows, columns)
    return _corrected(node, node.emit(product), node.input(data[1]), totals)


def _inside(length: int, kernel: int, window: ConvolutionWindow, axis: int) -> Array:
    """1 where a window's tap lies inside the axis, (windows, taps)."""
    before, after = window.padding[axis::2]
    stride, dilation = window.strides[axis], window.dilation[axis]
    count = (length + before + after - (kernel - 1) * dilation - 1) // stride + 1
    place = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation - before
    return ((place >= 0) & (place < length)).astype("int32")


def _along_channels(node: Node, value: relax.Expr, leading: int) -> relax.Expr:
    """A value for each output channel, shaped to broadcast; one value for all stays as it is."""
    dims = static_shape_of(value.ty)
    if dims is None or len(dims) != 1 or dims == (1,):
        return value
    trailing = node.rank - 2 + 1 - leading
    return node.emit(relax.op.reshape(value, [1] * leading + [dims[0]] + [1] * trailing))


def _centered(node: Node, value: relax.Expr, zero: relax.Expr | None) -> relax.Var:
    """``value - zero`` in int32."""
    wide = node.emit(relax.op.astype(value, "int32"))
    if zero is None:
        return wide
    return node.emit(relax.op.subtract(wide, node.emit(relax.op.astype(zero, "int32"))))


def _quantized(node: Node, total: relax.Expr, scale: relax.Expr) -> relax.Expr:
    """int32 sums of this scale, in the type, scale and zero point of the node's result."""
    zero = node.required(7)
    dtype = str(zero.ty.dtype)
    # Scales may be float16; ONNX Runtime computes in float32.
    own, result = (
        node.emit(relax.op.astype(value, "float32")) for value in (scale, node.required(6))
    )
    factor = node.emit(relax.op.divide(own, result))
    real = node.emit(relax.op.multiply(node.emit(relax.op.astype(total, "float32")), factor))
    shift = node.emit(relax.op.astype(zero, "float32"))
    shifted = node.emit(relax.op.add(node.emit(relax.op.round(real)), shift))
    limits = np.iinfo(dtype)
    return relax.op.astype(
        node.emit(relax.op.clip(shifted, float(limits.min), float(limits.max))), dtype
    )
