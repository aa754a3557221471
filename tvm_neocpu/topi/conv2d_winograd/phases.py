"""A strided convolution of few channels as one of stride 1 over its phases (space to depth).

With stride s an image is s x s images of every s-th pixel, and a kernel as many kernels: 3x224x224
under a 7x7 kernel of stride 2 is 12x115x115 under a 4x4 one. Twelve channels fill a vector, which
three do not, and Winograd's transforms need them in one.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tvm_neocpu.core.machine.cpu import VectorUnit
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.tiled_conv import unit_stride
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import pad_spatial, place_padding

PLAIN, PHASES = "phases_pad", "phases"


def split_pixels(data: te.Tensor, geometry: WinogradGeometry) -> te.Tensor:
    """(N, C, H, W) -> (N, 1, rows, cols, lanes): padded, zeros in lanes without a channel."""
    conv, shape = geometry.conv, geometry.padded_extent
    down, across = conv.stride
    at_least = shape[0] * down, shape[1] * across
    padded = pad_spatial(data, conv.padding, at_least, PLAIN, conv.pad_value)

    def pixel(n, _, y, x, lane):
        channel, row, col = lane // (down * across), lane // across % down, lane % across
        value = padded[n, channel, y * down + row, x * across + col]
        zero = tirx.const(0, data.dtype)
        return tirx.if_then_else(lane < geometry.in_channels, value, zero)

    return te.compute((conv.batch, 1, *shape, geometry.stored_ic_bn), pixel, name=PHASES)


def place_phases(sch: Schedule, chunk: LoopRV | None, conv: ConvWorkload, unit: VectorUnit) -> None:
    """Split the rows that a chunk reads just before it reads them; without one, all in one pass.

    # for y, x: for lane  ->  for y, x: lanes 0 and 1; lanes 2 and 3; .. of stride 2

    Neighbours in a row are neighbouring lanes. Lane by lane LLVM would gather and scatter rows.
    """
    phases = sch.get_sblock(PHASES)
    if chunk is None:
        steps.parallel_fused(sch, *sch.get_loops(phases)[:-2])
    else:
        sch.compute_at(phases, chunk, preserve_unit_loops=True)
    *_, lanes = sch.get_loops(phases)
    runs, run = steps.split_off(sch, lanes, conv.stride[1])
    steps.unroll_all(sch, runs)
    steps.vectorize_lanes(sch, run, unit)
    place_padding(sch, PLAIN, chunk, unit)


def split_taps(weight: np.ndarray, conv: ConvWorkload) -> np.ndarray:
    """(K, C, R, S) -> the weight of ``unit_stride(conv)``; taps beyond the kernel are zero."""
    (down, across), unit = conv.stride, unit_stride(conv)
    out_channels, in_channels, rows, cols = weight.shape
    height, width = unit.kernel
    filled = np.zeros((out_channels, in_channels, height * down, width * across), weight.dtype)
    filled[:, :, :rows, :cols] = weight
    taps = filled.reshape(out_channels, in_channels, height, down, width, across)
    phases: np.ndarray = taps.transpose(0, 1, 3, 5, 2, 4).reshape(unit.weight_shape)
    return phases
