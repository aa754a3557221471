"""Quantising and dequantising as calls that passes recognise, and the arithmetic that they mean.

    quantize      y = saturate(round(x / scale) + zero)
    dequantize    y = (x - zero) * scale

A constant that is dequantised stays a call, so that folding does not lose the integers.
:class:`IntegerOperators` removes all these calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax, te, tirx

from tvm_neocpu.relay_passes.ir.constants import Array, array_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name
from tvm_neocpu.relay_passes.operators.new.new_op import NewOp
from tvm_neocpu.topi.math import vector_math

QUANTIZE, DEQUANTIZE = "relax.neocpu.quantize", "relax.neocpu.dequantize"
NEAREST = "relax.neocpu.nearest"
WHOLE_BETWEEN = "relax.neocpu.whole_between"

Emit = Callable[[relax.Expr], relax.Expr]


def quantize(data: relax.Expr, scale: relax.Expr, zero: relax.Expr, axis: int) -> relax.Call:
    """float32 ``data`` in the type of ``zero``; a vector has one value for each index of ``axis``.

    ``scale`` (float32) and ``zero`` are scalars or vectors of the same length.
    """
    return _QUANTIZE(data, scale, zero, axis=axis)


def dequantize(data: relax.Expr, scale: relax.Expr, zero: relax.Expr, axis: int) -> relax.Call:
    """The way back, to float32; ``zero`` has the type of ``data``."""
    return _DEQUANTIZE(data, scale, zero, axis=axis)


def nearest(data: relax.Expr, shift: int) -> relax.Call:
    """float32 ``data`` rounded, half to even, plus a whole number; both below 2^22 in size.

    What the epilogue of an integer operator rounds by: two sums.
    """
    return _NEAREST(data, shift=shift)


def whole_between(data: relax.Expr, low: int, high: int, shift: int) -> relax.Call:
    """float32 ``data``, below 2^31 in size, rounded, between two bounds, plus a number; in int32.

    What :func:`nearest` makes of a clip, but the clip comes last: packs saturate for nothing.
    """
    return _WHOLE_BETWEEN(data, low=low, high=high, shift=shift)


def quantized(
    emit: Emit, data: relax.Expr, scale: relax.Expr, zero: relax.Expr | None, dtype: str
) -> relax.Expr:
    """The arithmetic of quantising floats; scale and zero point broadcast, of the data's type."""
    value = emit(relax.op.round(emit(relax.op.divide(data, scale))))
    if zero is not None:
        value = emit(relax.op.add(value, zero))
    limits = np.iinfo(dtype)
    low, high = (relax.const(bound, dtype_of(scale)) for bound in (limits.min, limits.max))
    # In this order a NaN becomes the least code, as in ONNX Runtime; TVM's clip gives the largest.
    clipped = emit(relax.op.minimum(emit(relax.op.maximum(value, low)), high))
    return relax.op.astype(clipped, dtype)


def dequantized(
    emit: Emit, data: relax.Expr, scale: relax.Expr, zero: relax.Expr | None
) -> relax.Expr:
    """The arithmetic of dequantising, in the scale's type; ``zero`` is int32."""
    whole = _as(emit, data, "int32")
    if zero is not None:
        whole = emit(relax.op.subtract(whole, zero))
    return relax.op.multiply(_as(emit, whole, dtype_of(scale)), scale)


def in_arithmetic(emit: Emit, call: relax.Call) -> relax.Expr:
    """What a call of either operator means, in operators of Relax."""
    data, scale, zero = call.args
    scale = _spread(emit, call, scale)
    to_ints = op_name(call) == QUANTIZE
    zero = _as(emit, _spread(emit, call, zero), "float32" if to_ints else "int32")
    if to_ints:
        return quantized(emit, data, scale, zero, dtype_of(call))
    return dequantized(emit, data, scale, zero)


@dataclass(frozen=True)
class Scaling:
    """Constant scales and zero points, in a shape that broadcasts over the data."""

    scale: Array
    zero: Array

    @property
    def is_uniform(self) -> bool:
        """Whether one scale and one zero point serve the whole tensor."""
        return self.scale.size == self.zero.size == 1


def read_scaling(call: relax.Call) -> Scaling | None:
    """The scaling of a call of either operator; ``None`` where it is not constant."""
    scale, zero = (array_of(argument) for argument in call.args[1:])
    rank = int(call.args[0].ty.ndim)
    if scale is None or zero is None or rank < 0:
        return None
    inner = (1,) * (rank - 1 - int(call.attrs["axis"]))
    scale, zero = (a.reshape(-1, *inner) if a.ndim else a for a in (scale, zero))
    return Scaling(scale, zero.astype("int32"))


def _spread(emit: Emit, call: relax.Call, value: relax.Expr) -> relax.Expr:
    if int(value.ty.ndim) == 0:
        return value
    rank, axis = int(call.args[0].ty.ndim), int(call.attrs["axis"])
    return emit(relax.op.reshape(value, [-1, *(1 for _ in range(rank - 1 - axis))]))


def _as(emit: Emit, value: relax.Expr, dtype: str) -> relax.Expr:
    return value if dtype_of(value) == dtype else emit(relax.op.astype(value, dtype))


def _shaped_as_data(call: relax.Call, dtype: str) -> relax.Type:
    data = call.args[0].ty
    if data.shape is None:
        return relax.TensorType(dtype=dtype, ndim=data.ndim)
    return relax.TensorType(data.shape, dtype)


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    return in_arithmetic(builder.emit, call)


def _legalize_nearest(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    shift = int(call.attrs["shift"])

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *at: vector_math.nearest(x(*at), shift), name="nearest")

    return builder.call_te(compute, call.args[0], primfunc_name_hint="nearest")


def _legalize_whole_between(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    low, high, shift = (int(call.attrs[name]) for name in ("low", "high", "shift"))

    def compute(x: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            return vector_math.whole_between(x(*at), low, high, shift)

        return te.compute(x.shape, element, name="whole_between")

    return builder.call_te(compute, call.args[0], primfunc_name_hint="whole_between")


_WHOLE_BETWEEN = NewOp(
    WHOLE_BETWEEN,
    infer=lambda call: _shaped_as_data(call, "int32"),
    legalize=_legalize_whole_between,
)
_NEAREST = NewOp(NEAREST, infer=lambda call: call.args[0].ty, legalize=_legalize_nearest)
_QUANTIZE = NewOp(
    QUANTIZE, infer=lambda call: _shaped_as_data(call, dtype_of(call.args[2])), legalize=_legalize
)
_DEQUANTIZE = NewOp(
    DEQUANTIZE, infer=lambda call: _shaped_as_data(call, "float32"), legalize=_legalize
)
