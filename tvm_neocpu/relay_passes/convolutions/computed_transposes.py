"""Transposed convolutions whose weight is computed, as convolutions with computed weights.

y = conv2d_transpose(x, w, strides=(s, t))
->
v = take(take(pad(w), rows, axis=2), columns, axis=3)    # the taps of each phase, zeros elsewhere
p = conv2d(x, reshape(permute_dims(v)))                  # s * t * K channels: phase-major
y = interleave(p, rows=s, columns=t)

StyleGAN's upsampling has such weights: each is scaled by the image's style.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.types import FOLDED
from tvm_neocpu.relay_passes.convolutions.sub_pixel_axis import SubPixelAxis, sub_pixel_axis
from tvm_neocpu.relay_passes.ir.constants import constant_of
from tvm_neocpu.relay_passes.ir.exprs import call_of, dtype_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, channel_move
from tvm_neocpu.relay_passes.layouts.flow import is_feature_map
from tvm_neocpu.relay_passes.layouts.slices import cropped


@dataclass(frozen=True)
class ComputedTransposes:
    """Each conv2d_transpose of one group, static shape and a computed weight becomes a conv2d.

    Needs: :class:`SubPixelTranspose` took those of constant weight.
    Leaves: convolutions that :class:`ComputedFilters` turns into products.
    """

    name: ClassVar[str] = "computed-transposes"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    call = call_of(value, "relax.nn.conv2d_transpose")
    if call is None or not all(is_feature_map(each) for each in (call, *call.args)):
        return None
    data, weight = call.args
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    shapes = [static_shape(each) for each in (data, weight, call)]
    image, kernel, out = shapes
    if isinstance(scope.resolve(weight), GenericConst) or int(attrs.groups) != 1:
        return None
    if layouts != ("NCHW", "IOHW", "NCHW") or image is None or kernel is None or out is None:
        return None
    if {dtype_of(each) for each in call.args} not in ({kind} for kind in FOLDED) or 0 in out:
        return None
    strides = (int(attrs.strides[0]), int(attrs.strides[1]))
    rows, columns = (
        sub_pixel_axis(
            image[2 + axis],
            kernel[2 + axis],
            strides[axis],
            int(attrs.dilation[axis]),
            int(attrs.padding[axis]),
            out[2 + axis],
        )
        for axis in (0, 1)
    )
    phases = scope.emit(
        relax.op.nn.conv2d(
            data,
            _phase_weights(scope, weight, strides, (rows, columns)),
            padding=[rows.before, columns.before, rows.after, columns.after],
            dilation=[rows.dilation, columns.dilation],
        )
    )
    if strides != (1, 1):
        phases = scope.emit(channel_move(phases, Interleave(*strides)))
    return cropped(phases, (rows.crop, columns.crop), out[2:])


def _phase_weights(
    scope: Scope, weight: relax.Expr, strides: tuple[int, int], axes: tuple[SubPixelAxis, ...]
) -> relax.Expr:
    """(C, K, R, S) -> (s * t * K, C, rows.window, columns.window), as `phase_weights` has it."""
    inputs, outputs, *kernel = static_shape(weight)
    taps = scope.emit(relax.op.nn.pad(weight, [0, 0, 0, 0, 0, 1, 0, 1]))  # zeros behind the taps
    for place, axis in enumerate(axes):
        sources = np.full((strides[place], axis.window), kernel[place], "int64")
        for tap in axis.taps:
            sources[tap.phase, tap.place] = tap.source
        found = constant_of(sources.reshape(-1))
        taps = scope.emit(relax.op.take(taps, found, axis=2 + place, mode="clip"))
    rows, columns = axes
    shape = (inputs, outputs, strides[0], rows.window, strides[1], columns.window)
    split = scope.emit(relax.op.reshape(taps, shape))
    phases = scope.emit(relax.op.permute_dims(split, [2, 4, 1, 0, 3, 5]))
    together = (strides[0] * strides[1] * outputs, inputs, rows.window, columns.window)
    return scope.emit(relax.op.reshape(phases, together))


__all__ = ["ComputedTransposes"]
