"""Transposed convolutions as convolutions: every phase of the output is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.relay_passes.ir.constants import constant_of
from tvm_neocpu.relay_passes.ir.exprs import call_of, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, channel_move
from tvm_neocpu.relay_passes.layouts.flow import is_feature_map
from tvm_neocpu.relay_passes.layouts.slices import Range, slice_of
from tvm_neocpu.relay_passes.linear.calls import read_step
from tvm_neocpu.relay_passes.linear.steps import ConvTranspose
from tvm_neocpu.relay_passes.linear.sub_pixel_axis import SubPixelAxis, sub_pixel_axis


@dataclass(frozen=True)
class SubPixelTranspose:
    """Stride (s, t) becomes one convolution with s * t times the outputs, whose pixels interleave.

    With groups the phases are convolutions of their own, so that the channels of one phase stay
    together and a block of the interleaved layout need not fit into a group. Batch norm and bias
    should be folded before.
    """

    name: ClassVar[str] = "sub-pixel-transpose"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_values(mod, _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    call = call_of(value, "relax.nn.conv2d_transpose")
    if call is None or not is_feature_map(call) or not is_feature_map(call.args[0]):
        return None
    read = read_step(call)
    if read is None:
        return None
    data, step = read
    rows, columns = _axes(step, static_shape(data)[2:], static_shape(call)[2:])
    phases = _convolutions(scope, data, step, rows, columns)
    whole = phases[0] if len(phases) == 1 else scope.emit(relax.op.concat(phases, axis=1))
    if step.stride != (1, 1):
        whole = scope.emit(channel_move(whole, Interleave(*step.stride)))
    return _cropped(whole, (rows.crop, columns.crop), static_shape(call)[2:])


def _axes(
    step: ConvTranspose, image: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[SubPixelAxis, SubPixelAxis]:
    rows, columns = (
        sub_pixel_axis(
            image[axis],
            step.weight.shape[2 + axis],
            step.stride[axis],
            step.dilation[axis],
            step.padding[axis],
            wanted[axis],
        )
        for axis in (0, 1)
    )
    return rows, columns


def _convolutions(
    scope: Scope, data: relax.Expr, step: ConvTranspose, rows: SubPixelAxis, columns: SubPixelAxis
) -> list[relax.Expr]:
    """One for all phases, or one a phase where there are groups."""
    by_phase = phase_weights(step, rows, columns)
    together = (-1, *by_phase.shape[2:])
    weights = [by_phase.reshape(together)] if step.groups == 1 else list(by_phase)
    return [
        scope.emit(
            relax.op.nn.conv2d(
                data,
                constant_of(weight, "float32"),
                padding=[rows.before, columns.before, rows.after, columns.after],
                dilation=[rows.dilation, columns.dilation],
                groups=step.groups,
            )
        )
        for weight in weights
    ]


def phase_weights(step: ConvTranspose, rows: SubPixelAxis, columns: SubPixelAxis) -> np.ndarray:
    """(phase, K, C / groups, window, window): the phases' kernels in OIHW, zero without a tap.

    The phase (p, q) of the output's rows and columns is number ``p * t + q``.
    """
    inputs, outputs, *kernel = step.weight.shape
    by_group = step.weight.reshape(step.groups, inputs // step.groups, outputs, *kernel)
    oihw = by_group.swapaxes(1, 2).reshape(-1, inputs // step.groups, *kernel)
    shape = (*step.stride, *oihw.shape[:2], rows.window, columns.window)
    weights = np.zeros(shape, oihw.dtype)
    for row in rows.taps:
        for column in columns.taps:
            tap = oihw[:, :, row.source, column.source]
            weights[row.phase, column.phase, :, :, row.place, column.place] = tap
    return weights.reshape(-1, *shape[2:])


def _cropped(whole: relax.Expr, begin: tuple[int, ...], wanted: tuple[int, ...]) -> relax.Expr:
    extents = static_shape(whole)[2:]
    ranges = [
        Range(2 + axis, begin[axis], begin[axis] + wanted[axis])
        for axis in (0, 1)
        if wanted[axis] != extents[axis]
    ]
    return slice_of(whole, ranges) if ranges else whole


__all__ = ["SubPixelTranspose", "phase_weights"]
