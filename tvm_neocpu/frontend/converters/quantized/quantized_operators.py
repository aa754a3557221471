"""ONNX Runtime's operators over quantised tensors (QOperator files), as the float operator between
dequantising and quantising. So :class:`IntegerOperators` serves these files as it serves QDQ files.

    QLinearAdd(a, .., b, .., y_scale, y_zero)  ->  quantize(dequantize(a) + dequantize(b))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.convolutions.conv import conv
from tvm_neocpu.frontend.converters.convolutions.pool import average_pool
from tvm_neocpu.frontend.converters.node import Array, Node
from tvm_neocpu.frontend.converters.quantized import integer_arithmetic
from tvm_neocpu.frontend.converters.quantized.quantize import (
    check_scale,
    dequantize_linear,
    quantize_linear,
)

_FLOAT = "float32"
# Signals, images and volumes.
_RANKS = (3, 4, 5)


def qlinear_conv(node: Node) -> relax.Expr:
    """Inputs x, scale, zero, w, scale, zero, y_scale, y_zero, and an int32 bias.

    Exact sums in int32 by plain arithmetic where w, scales or zero points are computed.
    """
    scales = _known_scales(node) if node.rank in _RANKS else None
    if scales is None or node.known(3) is None:
        return integer_arithmetic.qlinear_conv(node)
    inputs = [_real(node, (0, 1, 2)), _real(node, (3, 4, 5), axis=0)]
    bias = node.input(8)
    if bias is not None:
        scale = relax.const(np.asarray(scales[0] * scales[1], _FLOAT).reshape(-1))
        inputs.append(_dequantized(node, (bias, scale, None), axis=0))
    return _coded(node, conv(replace(node, inputs=tuple(inputs))), 6)


def qlinear_matmul(node: Node) -> relax.Expr:
    """Inputs a, scale, zero, b, scale, zero, y_scale, y_zero; else as :func:`qlinear_conv`.

    Both a and b may be computed, as in an attention.
    """
    if node.rank == 1:
        row = node.emit(relax.op.expand_dims(node.data, 0))
        product = qlinear_matmul(replace(node, inputs=(row, *node.inputs[1:])))
        return relax.op.squeeze(node.emit(product), [-2])
    scales = _known_scales(node)
    if scales is None or scales[0].size != 1:
        return integer_arithmetic.qlinear_matmul(node)
    left, right = _real(node, (0, 1, 2)), _real(node, (3, 4, 5), axis=-1)
    return _coded(node, relax.op.matmul(left, right), 6)


def qgemm(node: Node) -> relax.Expr:
    """Inputs a, scale, zero, b, scale, zero, an int32 c, y_scale, y_zero.

    c has the scale alpha * a_scale * b_scale; without y_scale the result is float32.
    """
    flags = (node.attributes["transA"], node.attributes["transB"])
    left = _real(node, (0, 1, 2))
    right = _real(node, (3, 4, 5), axis=0 if flags[1] else -1)
    left, right = (
        node.emit(relax.op.permute_dims(matrix)) if turned else matrix
        for matrix, turned in zip((left, right), flags, strict=True)
    )
    total = node.emit(relax.op.matmul(left, right))
    alpha, bias = float(node.attributes["alpha"]), node.input(6)
    if alpha != 1:
        total = node.emit(relax.op.multiply(total, relax.const(alpha, _FLOAT)))
    if bias is not None:
        scales = [node.known(place) for place in (1, 4)]
        if scales[0] is None or scales[1] is None:
            raise UnsupportedOperatorError("a bias with scales that are not known at import")
        scale = relax.const(np.asarray(alpha * scales[0] * scales[1], _FLOAT).reshape(-1))
        total = node.emit(relax.op.add(total, _dequantized(node, (bias, scale, None), axis=-1)))
    return total if node.input(7) is None else _coded(node, total, 7)


def qlinear_binary(node: Node) -> relax.Expr:
    """QLinearAdd and QLinearMul: inputs a, scale, zero, b, scale, zero, y_scale, y_zero."""
    make = {"QLinearAdd": relax.op.add, "QLinearMul": relax.op.multiply}[node.op_type]
    result = node.emit(make(_real(node, (0, 1, 2)), _real(node, (3, 4, 5))))
    return _coded_beside_zero(node, result, 6)


def qlinear_unary(node: Node) -> relax.Expr:
    """QLinearSigmoid, QLinearLeakyRelu and QLinearSoftmax: x, scale, zero, y_scale, y_zero."""
    return _coded(node, _UNARY[node.op_type](node, _real(node, (0, 1, 2))), 3)


def qlinear_average_pool(node: Node) -> relax.Expr:
    """Inputs x, scale, zero, y_scale, y_zero; NCHW only."""
    _check_channels_first(node)
    mean = node.emit(average_pool(replace(node, inputs=(_real(node, (0, 1, 2)),))))
    return _coded_beside_zero(node, mean, 3)


def qlinear_global_average_pool(node: Node) -> relax.Expr:
    """As :func:`qlinear_average_pool`, over the whole image."""
    _check_channels_first(node)
    axes = list(range(2, node.rank))
    return _coded(node, relax.op.mean(_real(node, (0, 1, 2)), axes, keepdims=True), 3)


def qlinear_concat(node: Node) -> relax.Expr:
    """Inputs y_scale, y_zero, and then x, scale, zero of each part."""
    parts = [_real(node, (at, at + 1, at + 2)) for at in range(2, len(node.inputs), 3)]
    return _coded(node, relax.op.concat(parts, int(node.attributes["axis"])), 0)


def _softmax(node: Node, data: relax.Expr) -> relax.Expr:
    """Before opset 13 it is over all axes from ``axis`` on."""
    rank = int(data.ty.ndim)
    axis = int(node.attributes["axis"]) % rank
    if int(node.attributes["opset"]) < 13 and axis != rank - 1:
        raise UnsupportedOperatorError(f"a softmax over the axes from {axis} on")
    return relax.op.nn.softmax(data, axis)


_UNARY: dict[str, Callable[[Node, relax.Expr], relax.Expr]] = {
    "QLinearLeakyRelu": lambda node, x: relax.op.nn.leakyrelu(x, float(node.attributes["alpha"])),
    "QLinearSigmoid": lambda _, x: relax.op.sigmoid(x),
    "QLinearSoftmax": _softmax,
}


def _known_scales(node: Node) -> list[Array] | None:
    """The scales of x, w and y, in float32; ``None`` unless the zero points are constants, too."""
    places = (1, 4, 6)
    for place in places:
        check_scale(node, place)
    scales = [scale for place in places if (scale := node.known(place)) is not None]
    if len(scales) < len(places) or any(scale.dtype != _FLOAT for scale in scales):
        return None
    return scales if all(node.known(place) is not None for place in (2, 5, 7)) else None


def _check_channels_first(node: Node) -> None:
    if node.attributes["channels_last"]:
        raise UnsupportedOperatorError("channels_last is not supported")


def _real(node: Node, places: Sequence[int], axis: int = 0) -> relax.Expr:
    """The inputs data, scale and zero point at these places, dequantised."""
    data, scale = (node.required(place) for place in places[:2])
    return _dequantized(node, (data, scale, node.input(places[2])), axis)


def _dequantized(
    node: Node, inputs: tuple[relax.Expr, relax.Expr, relax.Expr | None], axis: int
) -> relax.Expr:
    return node.emit(dequantize_linear(replace(node, inputs=inputs, attributes={"axis": axis})))


def _coded_beside_zero(node: Node, value: relax.Var, scale_at: int) -> relax.Expr:
    """The value quantised where ONNX Runtime adds the zero point before it rounds half to even.

    round(x / scale + 7)  ==  round((x + scale) / scale) + 6    in exact numbers
    """
    scale, zero = (node.known(place) for place in (scale_at, scale_at + 1))
    if scale is None or zero is None or (scale.size, zero.size) != (1, 1) or zero.item() % 2 == 0:
        return _coded(node, value, scale_at)
    shifted = node.emit(relax.op.add(value, relax.const(scale.item(), _FLOAT)))
    even = relax.const(np.asarray(zero - 1, zero.dtype))
    inputs = [*node.inputs]
    inputs[scale_at + 1] = even
    return _coded(replace(node, inputs=tuple(inputs)), shifted, scale_at)


def _coded(node: Node, value: relax.Expr, scale_at: int) -> relax.Expr:
    """The value quantised by the scale at that place, and the zero point behind it.

    The result has the type of the first coded input where the zero point is omitted.
    """
    zero = node.input(scale_at + 1)
    if zero is None:
        coded = node.required(2 if node.op_type == "QLinearConcat" else 0)
        zero = relax.const(0, str(coded.ty.dtype))
    inputs = (node.emit(value), node.required(scale_at), zero)
    return quantize_linear(replace(node, inputs=inputs, attributes={"axis": 0}))
