"""Relax calls read as linear operations and written again; NCHW only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, GenericConst

from tvm_neocpu.relay_passes.ir.constants import Array, array_of, constant_of, overwritten
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, is_foldable, op_name, same_type
from tvm_neocpu.relay_passes.ir.rewrite import Scope
from tvm_neocpu.relay_passes.linear.ops import (
    Affine,
    Conv,
    ConvTranspose,
    Dense,
    LinearOp,
    Weighted,
)

Read = tuple[relax.Expr, LinearOp] | None

_ONE, _ZERO = np.ones(()), np.zeros(())


def read_linear_op(call: relax.Expr) -> Read:
    """(data, operation) of a linear call; ``None`` for any other expression."""
    reader = READERS.get(op_name(call))
    if reader is None or not _has_shape(call) or not all(map(_has_shape, call.args)):
        return None
    return reader(call)


def read_batch_norm(call: Call) -> Read:
    """(data, operation) of a batch norm's first result, in inference only.

    ``gamma (x - mean) / sqrt(var + eps) + beta`` is an affine operation with constant parameters.
    """
    attrs = call.attrs
    if attrs.training or not _has_shape(call.args[0]):
        return None
    params = [_folded_array(arg) for arg in call.args[1:]]
    if any(param is None for param in params):
        return None
    gamma, beta, mean, variance = (np.asarray(param, "float64") for param in params)
    scale = (gamma if attrs.scale else 1.0) / np.sqrt(variance + float(attrs.epsilon))
    shift = (beta if attrs.center else 0.0) - mean * scale
    return call.args[0], Affine(scale, shift, int(attrs.axis) % call.args[0].ty.ndim)


def write_linear_op(
    scope: Scope,
    data: relax.Expr,
    op: LinearOp,
    weights: Mapping[int, GenericConst],
    place: GenericConst | None = None,
) -> relax.Expr:
    """Emit the calls of an operation on ``data``.

    ``weights`` has the module's own constant for each array, by ``id``, that no rule changed. A
    changed weight that fits into ``place`` is written there.
    """
    if isinstance(op, Affine):
        return _write_affine(scope, data, op)
    weight = weights.get(id(op.weight))
    if weight is None:
        weight = _weight_constant(op.weight, dtype_of(data), place)
    return scope.emit(_linear_call(data, op, weight))


def _weight_constant(weight: Array, dtype: str, place: GenericConst | None) -> GenericConst:
    found = None if place is None else array_of(place)
    if place is None or found is None or (found.shape, str(found.dtype)) != (weight.shape, dtype):
        return constant_of(weight, dtype)
    return overwritten(place, weight)


def calls_of(op: LinearOp) -> int:
    """The number of calls that :func:`write_linear_op` emits."""
    return int(op.scales) + int(op.shifts) if isinstance(op, Affine) else 1


def _read_conv(call: Call) -> Read:
    attrs, weight = call.attrs, _folded_array(call.args[1])
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
    if weight is None or layouts != ("NCHW", "OIHW", "NCHW"):
        return None
    window = (ints(attrs.strides), ints(attrs.padding), ints(attrs.dilation))
    return call.args[0], Conv(weight, *window, int(attrs.groups), _pixels(call))


def _pixels(call: Call) -> int | None:
    """Height times width of the result, ``None`` if symbolic; the batch may be symbolic."""
    height, width = call.ty.shape.values[2:]
    if not isinstance(height, tvm.tirx.IntImm) or not isinstance(width, tvm.tirx.IntImm):
        return None
    return int(height) * int(width)


def _read_conv_transpose(call: Call) -> Read:
    attrs, weight = call.attrs, _folded_array(call.args[1])
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
    if weight is None or layouts != ("NCHW", "IOHW", "NCHW"):
        return None
    op = ConvTranspose(
        weight,
        ints(attrs.strides),
        ints(attrs.padding),
        ints(attrs.output_padding),
        ints(attrs.dilation),
        int(attrs.groups),
    )
    return call.args[0], op


def _read_dense(call: Call) -> Read:
    weight = _folded_array(call.args[1])
    if weight is None or weight.ndim != 2 or call.args[0].ty.ndim < 2:
        return None
    return call.args[0], Dense(weight, call.args[0].ty.ndim - 1)


def _read_add(call: Call) -> Read:
    return _affine(call, 0, lambda c: (_ONE, c)) or _affine(call, 1, lambda c: (_ONE, c))


def _read_multiply(call: Call) -> Read:
    return _affine(call, 0, lambda c: (c, _ZERO)) or _affine(call, 1, lambda c: (c, _ZERO))


def _read_subtract(call: Call) -> Read:
    return _affine(call, 0, lambda c: (_ONE, -c)) or _affine(call, 1, lambda c: (-_ONE, c))


def _read_divide(call: Call) -> Read:
    divisor = array_of(call.args[1])
    if divisor is None or not np.all(divisor):
        return None
    return _affine(call, 0, lambda c: (1 / c, _ZERO))


def _read_negative(call: Call) -> Read:
    return call.args[0], Affine(-_ONE, _ZERO, None)


def _affine(call: Call, data: int, terms: Callable[[Array], tuple[Array, Array]]) -> Read:
    """The call as an affine operation on ``args[data]``; the other argument is constant.

    ``None`` if the constant varies along two axes, broadcasts the tensor to a larger one, or makes
    a scale or shift that is no normal number: it would spoil the weight that it is folded into.
    """
    x, constant = call.args[data], _folded_array(call.args[1 - data])
    if constant is None or array_of(x) is not None:
        return None
    if not same_type(x, call):
        return None
    axes = [axis for axis, size in enumerate(constant.shape) if size != 1]
    if len(axes) > 1:
        return None
    axis = axes[0] + call.ty.ndim - constant.ndim if axes else None
    vector = constant.astype("float64").reshape(-1 if axes else ())
    with np.errstate(divide="ignore"):
        scale, shift = terms(vector)
    limits = np.finfo(dtype_of(call))
    for term in (scale, shift):
        sizes = np.abs(term)
        if not np.all((sizes == 0) | ((sizes >= limits.tiny) & (sizes <= limits.max))):
            return None
    return x, Affine(scale, shift, axis)


def _write_affine(scope: Scope, data: relax.Expr, op: Affine) -> relax.Expr:
    if op.scales:
        data = scope.emit(relax.op.multiply(data, _vector_constant(op.scale, op.axis, data)))
    if op.shifts:
        data = scope.emit(relax.op.add(data, _vector_constant(op.shift, op.axis, data)))
    return data


def _vector_constant(vector: Array, axis: int | None, data: relax.Expr) -> GenericConst:
    """Of shape (1, C, 1, 1) for an NCHW tensor's channels, (F,) for the last axis of any tensor."""
    rank = data.ty.ndim
    if vector.ndim and axis is not None and axis != rank - 1:
        vector = vector.reshape([-1 if a == axis else 1 for a in range(rank)])
    return constant_of(vector, dtype_of(data))


def _linear_call(data: relax.Expr, op: Weighted, weight: GenericConst) -> relax.Expr:
    if isinstance(op, Dense):
        return relax.op.matmul(data, weight)
    window: dict[str, Any] = {
        "strides": op.stride,
        "padding": op.padding,
        "dilation": op.dilation,
        "groups": op.groups,
    }
    if isinstance(op, Conv):
        return relax.op.nn.conv2d(data, weight, **window)
    window["output_padding"] = op.output_padding
    return relax.op.nn.conv2d_transpose(data, weight, **window)


def _has_shape(expr: relax.Expr) -> bool:
    """Whether it is a foldable tensor of known rank; its extents may be symbolic."""
    return is_foldable(expr) and isinstance(expr.ty.shape, relax.ShapeExpr)


def _folded_array(expr: relax.Expr) -> Array | None:
    return array_of(expr) if is_foldable(expr) else None


READERS: dict[str, Callable[[Call], Read]] = {
    "relax.add": _read_add,
    "relax.divide": _read_divide,
    "relax.matmul": _read_dense,
    "relax.multiply": _read_multiply,
    "relax.negative": _read_negative,
    "relax.nn.conv2d": _read_conv,
    "relax.nn.conv2d_transpose": _read_conv_transpose,
    "relax.subtract": _read_subtract,
}

__all__ = ["READERS", "calls_of", "read_batch_norm", "read_linear_op", "write_linear_op"]
