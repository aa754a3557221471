"""Convolutions and dense layers of dequantised tensors and constants, as integer calls.

    sum((x - z) * w)  =  sum(x * w) - z * sum(w)

The right part is a constant that joins the bias. It needs padding by ``z``.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import Array
from tvm_neocpu.relay_passes.ir.exprs import ints
from tvm_neocpu.relay_passes.quantized.encoding import CodedConstant, integer_weight
from tvm_neocpu.relay_passes.quantized.rewriter import Rewriter, Stored
from tvm_neocpu.relay_passes.quantized.sums import Sum, Term

_INT32_MAX = np.iinfo("int32").max


def conv2d(rewriter: Rewriter, call: relax.Call) -> Sum | None:
    """A convolution of uint8 data with int8 weights (int16 where int8 is too narrow) to int32."""
    data, weight = (rewriter.value(argument) for argument in call.args)
    attrs = call.attrs
    if not isinstance(data, Stored) or not isinstance(weight, CodedConstant):
        return None
    if str(attrs.data_layout) != "NCHW" or str(attrs.kernel_layout) != "OIHW":
        return None
    scale, zero = weight.scale_along(0), data.encoding.zero
    taps = weight.differences.sum(axis=(1, 2, 3))
    if scale is None or str(attrs.out_layout) != "NCHW" or not _fits(weight, -1, taps, zero):
        return None
    padding = list(ints(attrs.padding))
    tensor = data.codes.tensor
    if zero:
        # A pad of no width too: it tells the template around which code data lie.
        top, left, bottom, right = padding
        widths = [0, 0, 0, 0, top, bottom, left, right]
        tensor = rewriter.scope.emit(relax.op.nn.pad(tensor, widths, "constant", zero))
        padding = [0, 0, 0, 0]
    product = relax.op.nn.conv2d(
        tensor,
        integer_weight(weight.differences),
        strides=list(attrs.strides),
        padding=padding,
        dilation=list(attrs.dilation),
        groups=int(attrs.groups),
        out_dtype="int32",
    )
    channels = (-1, 1, 1) if scale.size > 1 else ()
    return _scaled(
        rewriter, product, data, scale.reshape(channels), (-zero * taps).reshape(-1, 1, 1)
    )


def matmul(rewriter: Rewriter, call: relax.Call) -> Sum | None:
    """A product of uint8 data with an int8 matrix (int16 where int8 is too narrow) to int32."""
    data, weight = (rewriter.value(argument) for argument in call.args)
    if not isinstance(data, Stored) or not isinstance(weight, CodedConstant):
        return None
    if weight.integers.ndim != 2:
        return None
    scale, zero = weight.scale_along(1), data.encoding.zero
    columns = weight.differences.sum(axis=0)
    if scale is None or not _fits(weight, 0, columns, zero):
        return None
    product = relax.op.matmul(
        data.codes.tensor, integer_weight(weight.differences), out_dtype="int32"
    )
    return _scaled(rewriter, product, data, scale, -zero * columns)


def _fits(weight: CodedConstant, axis: int, sums: Array, zero: int) -> bool:
    """Whether no sum of products, nor its correction, leaves int32."""
    if not weight.integers.size or weight.integers.dtype == np.int32:
        return False
    sizes = np.abs(weight.differences)
    largest = sizes.sum(axis=(1, 2, 3) if axis < 0 else axis).max() * 255
    return bool(largest <= _INT32_MAX and np.abs(zero * sums).max() <= _INT32_MAX)


def _scaled(
    rewriter: Rewriter, product: relax.Call, data: Stored, scale: Array, shift: Array
) -> Sum:
    # ONNX Runtime multiplies the scales in float32 too.
    factor = np.float32(data.encoding.scale) * scale.astype("float32")
    if not shift.any():
        shift = np.zeros((), "int64")
    return Sum((Term(rewriter.scope.emit(product), factor, shift),))
