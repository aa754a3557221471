"""Normalisation around the moments of channels, in any layout: in operations, and as one.

They read the image where NCHW[x]c has it, and know nothing of blocks. ``emit`` binds a value.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, ints, op_name, static_shape
from tvm_neocpu.relay_passes.layouts.flow import Emit

INSTANCE_NORM = "relax.nn.instance_norm"
SPATIAL_AXES = (2, 3)
# The rank of NCHW[x]c.
BLOCKED = 5


def moments(emit: Emit, data: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Mean and variance of each channel's image; TVM's variance stores no squares."""
    axes = list(SPATIAL_AXES)
    mean = emit(relax.op.mean(data, axes, keepdims=True))
    return mean, emit(relax.op.variance(data, axes, keepdims=True))


def normalised(
    emit: Emit,
    data: relax.Expr,
    moments: tuple[relax.Expr, relax.Expr],
    affine: tuple[relax.Expr, relax.Expr | None],
    epsilon: float,
) -> relax.Expr:
    """``(x - mean) * (scale / sqrt(variance + epsilon)) + bias``, not yet emitted.

    ``affine``: scale and bias, ``None`` for a bias of zero; all broadcast over ``data``.
    """
    (mean, variance), (scale, bias) = moments, affine
    shifted = emit(relax.op.add(variance, relax.const(epsilon, dtype_of(data))))
    factor = emit(relax.op.divide(scale, emit(relax.op.sqrt(shifted))))
    centred = emit(relax.op.subtract(data, mean))
    scaled = relax.op.multiply(centred, factor)
    return scaled if bias is None else relax.op.add(emit(scaled), bias)


def blocked_norm(data: relax.Expr, epsilon: float) -> relax.Expr:
    """``(x - mean) / sqrt(variance + epsilon)`` of each channel of NCHW[x]c, not yet emitted.

    The operator's scale and bias are 1 and 0, one for each block.
    """
    blocks, dtype = static_shape(data)[1], dtype_of(data)
    same = (relax.const(np.full(blocks, value, dtype)) for value in (1, 0))
    return relax.op.nn.instance_norm(data, *same, 1, list(SPATIAL_AXES), epsilon)


def is_blocked_norm(call: relax.Expr | None) -> bool:
    """Whether :func:`blocked_norm` made this call."""
    if op_name(call) != INSTANCE_NORM:
        return False
    shape, (scale, bias) = static_shape(call.args[0]), map(array_of, call.args[1:])
    if shape is None or len(shape) != BLOCKED or ints(call.attrs.axes) != SPATIAL_AXES:
        return False
    if scale is None or bias is None:
        return False
    return bool((scale == 1).all() and (bias == 0).all())
