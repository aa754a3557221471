"""Depthwise convolution in NCHW[x]c: a vector of channels a pixel.

Nothing is reduced over channels, so each tap multiplies a loaded pixel vector with a weight vector
that stays in a register; the tile of ``reg_m`` x ``reg_n`` pixels reuses both. Taps test for the
border themselves, which only the two ends of a row and the rows at the edge have to. Where an input
channel makes several outputs, a padding stage repeats it: the taps still load whole vectors.
"""

from __future__ import annotations

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import (
    DepthwiseConfig,
    DepthwiseGeometry,
    is_integer,
)
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import inline_padding, pad_spatial, place_padding

PAD, ACCUMULATE, STORE = "depthwise_pad", "depthwise_acc", "depthwise_store"


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: DepthwiseConfig
) -> te.Tensor:
    """``data``: (N, C/i, H, W, i), ``weight``: (K/x, 1, R, S, 1, x) -> (N, K/x, OH, OW, x).

    K is C times the multiplier, and x is i times it.
    """
    geometry = DepthwiseGeometry(conv, config)
    padded = pad_spatial(
        data, conv.padding, geometry.padded_extent, PAD, conv.pad_value, repeat=conv.multiplier
    )
    kh = te.reduce_axis((0, conv.kernel[0]), name="kh")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")
    wide = conv.types.accumulator

    def tap(n, o, y, x, c):
        row = y * conv.stride[0] + kh * conv.dilation[0]
        col = x * conv.stride[1] + kw * conv.dilation[1]
        pixel = padded[n, o, row, col, c].astype(wide)
        # A product of integers is that of words of one number: a 32-bit product takes longer.
        if is_integer(conv):
            return dot((pixel, weight[o, 0, kh, kw, 0, c]))
        return pixel * weight[o, 0, kh, kw, 0, c].astype(wide)

    acc = te.compute(
        (conv.batch, geometry.blocks, geometry.rows, geometry.columns, config.oc_bn),
        lambda *index: te.sum(tap(*index), axis=[kh, kw]),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )
    out_shape = (conv.batch, geometry.blocks, conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda *i: acc(*i).astype(conv.types.output), name=STORE)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """# parallel for n_o_yb: for yo, xo, part: (kh, kw unrolled): tile of yi, xi, c in registers.

    A wide kernel's rows stay a loop. Parts of a block follow each other, so that its lines are used
    while they are in L1.
    """
    conv = anchor.workload
    geometry = DepthwiseGeometry(conv, anchor.config)
    output, chunk = schedule_tiles(sch, anchor, geometry, cpu)
    if not geometry.is_copied:
        inline_padding(sch, PAD)
    place_padding(sch, PAD, chunk, cpu.unit(conv.types.data))
    return output


def schedule_tiles(
    sch: Schedule,
    anchor: Anchor,
    geometry: DepthwiseGeometry,
    cpu: Cpu,
    rows_first: bool = True,
) -> tuple[SBlockRV, LoopRV]:
    """Schedule all but the padding; returns the output and the loop over chunks.

    ``rows_first``: a tile is yi, xi, c, else xi, yi, c, where pixels of one column follow each
    other.
    """
    conv, config, acc = anchor.workload, anchor.config, anchor.block
    unit = cpu.unit(conv.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    n, o, y, x, c, kh, kw = sch.get_loops(acc)
    y, yi = steps.split_off(sch, y, config.reg_m)
    xo, xi = steps.split_off(sch, x, config.reg_n)
    yb, yo = steps.split_off(sch, y, geometry.chunk_rows)
    tile = [xo]
    if config.tile_channels < config.oc_bn:
        part, c = steps.split_off(sch, c, config.tile_channels)
        tile.append(part)
    pixels = (yi, xi) if rows_first else (xi, yi)
    sch.reorder(n, o, yb, yo, *tile, kh, kw, *pixels, c)
    chunk = steps.parallel_fused(sch, n, o, yb)
    if config.unroll_ker:
        steps.unroll_all(sch, *((kh, kw) if geometry.unrolls_rows else (kw,)))
    sch.reverse_compute_at(output, tile[-1], preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=2)
    steps.hold_tile_in_registers(sch, acc, kh, unit)
    return output, chunk


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: DepthwiseConfig) -> np.ndarray:
    """(K, 1, R, S) -> (K/x, 1, R, S, 1, x), contiguous; integers in words of one each."""
    if is_integer(conv):
        weight = weight.astype(WORD_TYPE)
    channels, _, height, width = weight.shape
    blocked = weight.reshape(channels // config.oc_bn, config.oc_bn, 1, height, width)
    return np.ascontiguousarray(blocked.transpose(0, 2, 3, 4, 1))[:, :, :, :, None, :]


def packed_shape(conv: ConvWorkload, config: DepthwiseConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return DepthwiseGeometry(conv, config).packed_shape
