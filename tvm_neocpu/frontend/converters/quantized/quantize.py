"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear of integers of 8, 16 and 32 bits.

    QuantizeLinear      y = saturate(round(x / scale) + zero)
    DequantizeLinear    y = (x - zero) * scale

float32 and 8 bits (32 to dequantise) become calls that :class:`IntegerOperators` reads, anything
else plain arithmetic.
"""

from __future__ import annotations

import numpy as np
import onnx
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of
from tvm_neocpu.relay_passes.operators.new import quantize

_QUANTIZED = ("int8", "uint8", "int16", "uint16")
_DEQUANTIZED = (*_QUANTIZED, "int32")
_FLOATS = ("float16", "float32", "float64")
# What integer operators work on.
_CODED = ("int8", "uint8")
_FLOAT = "float32"


def quantize_linear(node: Node) -> relax.Expr:
    """One scale for all, one for each element of ``axis``, or one for each block along it."""
    scale, zero = node.required(1), node.input(2)
    dtype = _named_type(node) or ("uint8" if zero is None else str(zero.ty.dtype))
    if dtype not in _QUANTIZED:
        raise UnsupportedOperatorError(f"{dtype} is none of {', '.join(_QUANTIZED)}")
    check_scale(node, 1)
    _check_zero(node, dtype)
    if _is_plain(node) and node.dtype == str(scale.ty.dtype) == _FLOAT and dtype in _CODED:
        return quantize.quantize(node.data, *_scaling(node, dtype), axis=_axis(node))
    # ONNX Runtime divides in float32, whatever the type of the data is.
    wide = "float64" if node.dtype == "float64" else "float32"
    scale = _spread(node, _as(node, scale, wide))
    if zero is not None:
        zero = _spread(node, _as(node, zero, wide))
    return quantize.quantized(node.emit, _as(node, node.data, wide), scale, zero, dtype)


def dequantize_linear(node: Node) -> relax.Expr:
    """The other way; a missing zero point is 0."""
    if node.dtype not in _DEQUANTIZED:
        raise UnsupportedOperatorError(f"{node.dtype} is none of {', '.join(_DEQUANTIZED)}")
    scale, zero = node.required(1), node.input(2)
    dtype = _named_type(node) or str(scale.ty.dtype)
    if dtype not in _FLOATS:
        raise UnsupportedOperatorError(f"{dtype} is none of {', '.join(_FLOATS)}")
    check_scale(node, 1)
    _check_zero(node, node.dtype)
    coded = node.dtype in (*_CODED, "int32")
    if coded and _is_plain(node) and dtype == str(scale.ty.dtype) == _FLOAT:
        return quantize.dequantize(node.data, *_scaling(node, node.dtype), axis=_axis(node))
    if zero is not None:
        zero = _spread(node, _as(node, zero, "int32"))
    # A product in float16 would overflow where its result does not.
    wide = "float64" if dtype == "float64" else "float32"
    scale = _spread(node, _as(node, scale, wide))
    real = quantize.dequantized(node.emit, node.data, scale, zero)
    return real if wide == dtype else relax.op.astype(node.emit(real), dtype)


def check_scale(node: Node, place: int) -> None:
    """Raises UnsupportedOperatorError for a scale that is known and not positive and finite."""
    scale = node.known(place)
    if scale is None:
        return
    bad = scale[~(np.isfinite(scale) & (scale > 0))]
    if bad.size:
        raise UnsupportedOperatorError(
            f"a scale of {bad.flat[0]:g}; scales are positive and finite"
        )


def _check_zero(node: Node, dtype: str) -> None:
    """Raises UnsupportedOperatorError for a zero point of another type, or of another shape."""
    zero = node.input(2)
    if zero is None:
        return
    if str(zero.ty.dtype) != dtype:
        raise UnsupportedOperatorError(f"a zero point in {zero.ty.dtype} for data in {dtype}")
    shapes = [static_shape_of(part.ty) for part in (zero, node.required(1))]
    if None not in shapes and shapes[0] != shapes[1] and {*shapes} != {(), (1,)}:
        raise UnsupportedOperatorError(
            f"a zero point {list(shapes[0] or ())} with a scale {list(shapes[1] or ())}"
        )
    known = node.known(2)
    if dtype == "int32" and known is not None and known.any():
        raise UnsupportedOperatorError("a zero point other than 0 for data in int32")


def _is_plain(node: Node) -> bool:
    """Whether one scale serves all, or each element of an axis has its own."""
    scale = static_shape_of(node.required(1).ty)
    if scale is None or node.attributes.get("block_size", 0):
        return False
    if scale in ((), (1,)):
        return int(node.data.ty.ndim) >= 0
    return len(scale) == 1 and scale[0] == node.extent(_axis(node))


def _scaling(node: Node, dtype: str) -> tuple[relax.Expr, relax.Expr]:
    """Scale and zero point, a scalar each where they have one element."""
    scale, zero = node.required(1), node.input(2)
    dims = static_shape_of(scale.ty)
    if zero is None:
        zero = relax.const(np.zeros(dims, dtype))
    return (scalar(node, scale), scalar(node, zero)) if dims in ((), (1,)) else (scale, zero)


def scalar(node: Node, value: relax.Expr) -> relax.Expr:
    """A tensor of one element without axes."""
    return value if int(value.ty.ndim) == 0 else node.emit(relax.op.reshape(value, []))


def _axis(node: Node) -> int:
    """The axis of a vector of scales, from the front; 0 for a scalar, which needs none."""
    if static_shape_of(node.required(1).ty) in ((), (1,)):
        return 0
    axis = node.attributes.get("axis", 1)
    if not -node.rank <= axis < node.rank:
        raise UnsupportedOperatorError(f"axis {axis} is outside a tensor of rank {node.rank}")
    return int(axis % node.rank)


def dynamic_quantize_linear(node: Node) -> relax.Expr:
    """``y``, its scale and its zero point, uint8; the range is that of the data and 0."""
    none, steps, one = (relax.const(value, node.dtype) for value in (0, 255, 1))
    high = node.emit(relax.op.maximum(node.emit(relax.op.max(node.data)), none))
    low = node.emit(relax.op.minimum(node.emit(relax.op.min(node.data)), none))
    width = node.emit(relax.op.divide(node.emit(relax.op.subtract(high, low)), steps))
    # As in ONNX Runtime, data of zeros alone has the scale 1.
    scale = node.emit(relax.op.where(node.emit(relax.op.equal(width, none)), one, width))
    zero = node.emit(relax.op.negative(node.emit(relax.op.divide(low, scale))))
    zero = node.emit(relax.op.round(node.emit(relax.op.clip(zero, 0, 255))))
    value = node.emit(quantize.quantized(node.emit, node.data, scale, zero, "uint8"))
    return relax.Tuple([value, scale, node.emit(relax.op.astype(zero, "uint8"))][: node.outputs])


def _named_type(node: Node) -> str | None:
    kind = node.attributes.get("output_dtype", 0)
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind)) if kind else None


def _as(node: Node, value: relax.Expr, dtype: str) -> relax.Expr:
    return value if str(value.ty.dtype) == dtype else node.emit(relax.op.astype(value, dtype))


def _spread(node: Node, value: relax.Expr) -> relax.Expr:
    """A scale or zero point, shaped so that it broadcasts over the data."""
    dims = static_shape_of(value.ty)
    if dims is None:
        raise UnsupportedOperatorError("the shape of its scale is not known at import")
    if dims in ((), (1,)):
        return scalar(node, value)
    axis = _axis(node)
    block = node.attributes.get("block_size", 0)
    if block:
        return _blocks(node, value, dims, axis, block)
    if len(dims) != 1 or dims[0] != node.extent(axis):
        raise UnsupportedOperatorError(f"a scale {list(dims)} for axis {axis} of the data")
    return node.emit(relax.op.reshape(value, [-1, *(1 for _ in range(node.rank - 1 - axis))]))


def _blocks(
    node: Node, value: relax.Expr, dims: tuple[int, ...], axis: int, block: int
) -> relax.Expr:
    """Each element for ``block`` neighbours of the data; the last block may be short."""
    length = node.extent(axis)
    expected = [
        -(-node.extent(place) // block) if place == axis else node.extent(place)
        for place in range(node.rank)
    ]
    if block < 1 or list(dims) != expected:
        raise UnsupportedOperatorError(f"a scale {list(dims)} for blocks of {block} along {axis}")
    spread = node.emit(relax.op.repeat(value, block, axis))
    if dims[axis] * block == length:
        return spread
    return node.emit(relax.op.strided_slice(spread, [axis], [0], [length]))
