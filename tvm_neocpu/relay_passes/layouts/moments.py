"""Normalisation as elementwise operations around the moments of channels, in any layout.

They read the image where NCHW[x]c has it, and know nothing of blocks. ``emit`` binds a value.
"""

from __future__ import annotations

from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import dtype_of
from tvm_neocpu.relay_passes.layouts.flow import Emit

SPATIAL_AXES = (2, 3)


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
