"""Group normalisation in operations that follow a blocked layout.

Exporters write it as an instance normalisation over groups, whose reshapes need plain NCHW::

    g = reshape(x, (N, G, -1))              m = over_group(mean(x))         # (N, C, 1, 1)
    g = instance_norm(g, s, b)        ->    v = over_group(variance(x) + (mean(x) - m)^2)
    y = reshape(g, (N, C, H, W))            y = (x - m) * (s / sqrt(v + epsilon)) + b

All channels have the same number of pixels, so that a group's mean is the mean of its channels'
means. Only tensors of one number for each channel are reshaped into groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import call_of, dtype_of, ints, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.moments import (
    INSTANCE_NORM,
    SPATIAL_AXES,
    moments,
    normalised,
)

GROUP_NORM = "relax.nn.group_norm"
# Ranks of sequences and of feature maps. A volume is normalised over all its images together, of
# which each would have a mean of its own here.
RANKS = 3, 4


@dataclass(frozen=True)
class GroupNorms:
    """Each group normalisation with constant scales over a sequence or a feature map.

    A sequence (N, C, L) is normalised as an image of one row. With a channel in each group it is an
    instance normalisation, which layouts know.

    Needs: constants are folded.
    """

    name: ClassVar[str] = "group-norms"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewritten)


@dataclass(frozen=True)
class _Norm:
    """Of ``data``, in so many groups; ``scale`` and ``bias``: a number for each channel, (C,)."""

    data: relax.Expr
    groups: int
    scale: np.ndarray
    bias: np.ndarray
    epsilon: float


def _rewritten(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    found = _over_groups(scope, value) or _reshaped(scope, value)
    if found is None:
        return None
    shape = static_shape(found.data)
    assert shape is not None, "a norm that was found has a shape"
    image = shape if len(shape) == max(RANKS) else (*shape[:2], 1, shape[2])
    data = scope.emit(relax.op.reshape(found.data, image)) if image != shape else found.data
    result = _normalised(scope, data, found)
    return result if image == shape else relax.op.reshape(scope.emit(result), shape)


def _over_groups(scope: Scope, value: relax.Expr) -> _Norm | None:
    """What Relax's own operator asks for."""
    call = call_of(value, GROUP_NORM)
    if call is None or not _is_blockable(call.args[0]):
        return None
    rank, attrs = len(static_shape(call.args[0]) or ()), call.attrs
    if int(attrs.channel_axis) != 1 or ints(attrs.axes) != tuple(range(2, rank)):
        return None
    return _found(scope, call, call.args[0], int(attrs.num_groups))


def _reshaped(scope: Scope, value: relax.Expr) -> _Norm | None:
    """What an instance normalisation between two reshapes asks for."""
    back = call_of(value, "relax.reshape")
    norm = None if back is None else call_of(scope.definition(back.args[0]), INSTANCE_NORM)
    there = None if norm is None else call_of(scope.definition(norm.args[0]), "relax.reshape")
    if norm is None or there is None or not _is_blockable(there.args[0]):
        return None
    before, over = static_shape(there.args[0]), static_shape(there)
    if before is None or over is None or static_shape(value) != before or before[0] != over[0]:
        return None
    whole = ints(norm.attrs.axes) == tuple(range(2, len(over)))
    if not whole or int(norm.attrs.channel_axis) != 1 or before[1] % over[1]:
        return None
    return _found(scope, norm, there.args[0], over[1])


def _is_blockable(data: relax.Expr) -> bool:
    shape = static_shape(data)
    return shape is not None and len(shape) in RANKS and dtype_of(data) == "float32"


def _found(scope: Scope, call: relax.Call, data: relax.Expr, groups: int) -> _Norm | None:
    channels = (static_shape(data) or ())[1]
    each = [scope.resolve(operand) for operand in call.args[1:3]]
    if not all(isinstance(operand, GenericConst) for operand in each):
        return None
    arrays = [array_of(operand) for operand in each]
    if any(array is None for array in arrays):
        return None
    scale, bias = (np.repeat(array, channels // array.size) for array in arrays)
    return _Norm(data, groups, scale, bias, float(call.attrs.epsilon))


def _normalised(scope: Scope, data: relax.Expr, norm: _Norm) -> relax.Expr:
    """The norm of a feature map, not yet emitted.

    A group's variance is the mean, over its channels, of variance + (channel's mean - group's
    mean)^2. No tensor of squares is stored.
    """
    emit, dtype = scope.emit, dtype_of(data)
    if norm.groups == norm.scale.size:
        each = (constant_of(values, dtype) for values in (norm.scale, norm.bias))
        return relax.op.nn.instance_norm(data, *each, 1, list(SPATIAL_AXES), norm.epsilon)
    means, variances = moments(emit, data)
    mean = _over_group(scope, means, norm.groups)
    apart = emit(relax.op.subtract(means, mean))
    spread = emit(relax.op.add(variances, emit(relax.op.multiply(apart, apart))))
    variance = _over_group(scope, spread, norm.groups)
    scale, bias = (
        constant_of(values.reshape(-1, 1, 1), dtype) for values in (norm.scale, norm.bias)
    )
    affine = scale, bias if norm.bias.any() else None
    return normalised(emit, data, (mean, variance), affine, norm.epsilon)


def _over_group(scope: Scope, values: relax.Expr, groups: int) -> relax.Expr:
    """For each channel the mean over its group: (N, C, 1, 1) of (N, C, 1, 1)."""
    emit, (batch, channels, *_) = scope.emit, static_shape(values) or ()
    apart = (batch, groups, channels // groups)
    of_groups = emit(relax.op.mean(emit(relax.op.reshape(values, apart)), [2], keepdims=True))
    shared = emit(relax.op.broadcast_to(of_groups, apart))
    return emit(relax.op.reshape(shared, (batch, channels, 1, 1)))
