"""Transposed convolutions as convolutions: one for each phase of the output.

y = conv2d_transpose(x, W, strides=(s, t))
->
p = conv2d(x, W')                 # s * t * K channels: phase-major
y = interleave(p, rows=s, columns=t)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.relay_passes.convolutions.sub_pixel_axis import SubPixelAxis, sub_pixel_axis
from tvm_neocpu.relay_passes.ir.constants import constant_of
from tvm_neocpu.relay_passes.ir.exprs import call_of, dtype_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, channel_move
from tvm_neocpu.relay_passes.layouts.flow import is_feature_map
from tvm_neocpu.relay_passes.layouts.slices import cropped
from tvm_neocpu.relay_passes.linear.calls import read_linear_op
from tvm_neocpu.relay_passes.linear.ops import ConvTranspose


@dataclass(frozen=True)
class SubPixelTranspose:
    """A transposed convolution of stride (s, t) becomes a convolution and an interleave.

    The convolution has s * t times the output channels. With groups, each phase is a convolution of
    its own: then the channels of a phase stay together, and a block of the interleaved layout may
    be larger than a group.

    Needs: batch norm and bias are folded (:class:`FoldLinearOps` reads transposed convolutions).
    Leaves: no transposed convolution of a static feature map with a constant weight.
    """

    name: ClassVar[str] = "sub-pixel-transpose"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    call = call_of(value, "relax.nn.conv2d_transpose")
    if call is None or not is_feature_map(call) or not is_feature_map(call.args[0]):
        return None
    read = read_linear_op(call)
    if read is None:
        return None
    data, conv = read
    rows, columns = _axes(conv, static_shape(data)[2:], static_shape(call)[2:])
    phases = _convolutions(scope, data, conv, rows, columns)
    whole = phases[0] if len(phases) == 1 else scope.emit(relax.op.concat(phases, axis=1))
    if conv.stride != (1, 1):
        whole = scope.emit(channel_move(whole, Interleave(*conv.stride)))
    return cropped(whole, (rows.crop, columns.crop), static_shape(call)[2:])


def _axes(
    conv: ConvTranspose, image: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[SubPixelAxis, SubPixelAxis]:
    rows, columns = (
        sub_pixel_axis(
            image[axis],
            conv.weight.shape[2 + axis],
            conv.stride[axis],
            conv.dilation[axis],
            conv.padding[axis],
            wanted[axis],
        )
        for axis in (0, 1)
    )
    return rows, columns


def _convolutions(
    scope: Scope, data: relax.Expr, conv: ConvTranspose, rows: SubPixelAxis, columns: SubPixelAxis
) -> list[relax.Expr]:
    """One convolution for all phases, or, with groups, one for each phase."""
    by_phase = phase_weights(conv, rows, columns)
    together = (-1, *by_phase.shape[2:])
    weights = [by_phase.reshape(together)] if conv.groups == 1 else list(by_phase)
    return [
        scope.emit(
            relax.op.nn.conv2d(
                data,
                constant_of(weight, dtype_of(data)),
                padding=[rows.before, columns.before, rows.after, columns.after],
                dilation=[rows.dilation, columns.dilation],
                groups=conv.groups,
            )
        )
        for weight in weights
    ]


def phase_weights(conv: ConvTranspose, rows: SubPixelAxis, columns: SubPixelAxis) -> np.ndarray:
    """The kernels of the phases, (phase, K, C / groups, rows.window, columns.window).

    The phase (p, q) of the output's rows and columns has the number ``p * t + q``. Places without a
    tap are zero.
    """
    inputs, outputs, *kernel = conv.weight.shape
    by_group = conv.weight.reshape(conv.groups, inputs // conv.groups, outputs, *kernel)
    oihw = by_group.swapaxes(1, 2).reshape(-1, inputs // conv.groups, *kernel)
    shape = (*conv.stride, *oihw.shape[:2], rows.window, columns.window)
    weights = np.zeros(shape, oihw.dtype)
    for row in rows.taps:
        for column in columns.taps:
            tap = oihw[:, :, row.source, column.source]
            weights[row.phase, column.phase, :, :, row.place, column.place] = tap
    return weights.reshape(-1, *shape[2:])


__all__ = ["SubPixelTranspose", "phase_weights"]
