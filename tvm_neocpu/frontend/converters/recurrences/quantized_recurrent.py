"""DynamicQuantizeLSTM of ONNX Runtime: an LSTM whose matmuls multiply 8-bit integers.

    matmul(x, W)  ->  dequantize(quantize(x)) @ dequantize(W)

The range of the inputs is that of all steps together, the range of a hidden state that of its step.
Products and sums of the integers are exact in float32 up to some 500 rows, so that results are ONNX
Runtime's up to rounding. W and R are transposed against those of LSTM.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Array, Node
from tvm_neocpu.frontend.converters.quantized.quantize import check_scale, dynamic_quantize_linear
from tvm_neocpu.frontend.converters.recurrences.recurrent import lstm
from tvm_neocpu.relay_passes.operators.new import quantize


def dynamic_quantize_lstm(node: Node) -> relax.Expr:
    """Inputs of LSTM, with W ``(directions, inputs, 4 * hidden)`` and R ``(directions, hidden,
    4 * hidden)`` of 8 bits, then their scales and zero points: one for each direction, or for each
    column too.
    """
    inputs = [*node.inputs[:8], *(None for _ in range(8 - len(node.inputs)))]
    for place, scale in ((1, 8), (2, 10)):
        inputs[place] = relax.const(_matrices(node, place, scale))
    return lstm(replace(node, inputs=tuple(inputs)), _rounded)


def _matrices(node: Node, place: int, scale_place: int) -> Array:
    """The weights at a place in float32, with the columns in front as LSTM has them."""
    check_scale(node, scale_place)
    weight, scale, zero = (node.constant(at) for at in (place, scale_place, scale_place + 1))
    if weight is None or scale is None or weight.ndim != 3:
        raise UnsupportedOperatorError(f"input {place} must have 3 dimensions and a scale")
    columns = (len(weight), 1, -1)
    whole = weight.astype("int32")
    if zero is not None:
        whole = whole - zero.astype("int32").reshape(columns)
    real = (whole * scale.reshape(columns)).astype("float32")
    return np.ascontiguousarray(real.transpose(0, 2, 1))


def _rounded(node: Node, data: relax.Expr) -> relax.Expr:
    """The data as its 8-bit codes say it."""
    coded = dynamic_quantize_linear(replace(node, inputs=(data,), outputs=3))
    value, scale, zero = coded.fields
    whole = node.emit(relax.op.astype(zero, "int32"))
    return node.emit(quantize.dequantized(node.emit, node.emit(value), scale, whole))
