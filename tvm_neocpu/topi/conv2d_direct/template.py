"""Direct convolution in NCHW[x]c: compute, schedule and weight packing (NeoCPU, section 3.1.1).

The register tile is ``reg_m`` rows x ``reg_n`` columns x ``oc_bn`` channels. Each step of the
reduction loads ``oc_bn`` weights once and multiplies them with broadcast input pixels.
"""

from __future__ import annotations

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.config import ConvConfig
from tvm_neocpu.core.layout import largest_factor
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d_direct.space import computed_columns
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import pad_spatial, place_padding
from tvm_neocpu.topi.tir.prefetch_pixels import prefetch_next_pixels
from tvm_neocpu.topi.tir.prefetch_weights import prefetch_next_panel

PAD, ACCUMULATE, STORE = "conv2d_pad", "conv2d_acc", "conv2d_store"


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: ConvConfig
) -> te.Tensor:
    """The convolution over blocked tensors.

    ``data``: (N, C/ic_bn, H, W, ic_bn), or (N, C, H, W) when ``ic_bn == 0``.
    ``weight``: (K/oc_bn, C/groups/ic_bn, R, S, ic_bn, tile_channels) of :func:`pack_weight`.
    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    tile_rows, _ = tiles(conv, config)
    reach_h = (tile_rows * config.reg_m - 1) * conv.stride[0] + _reach(conv, 0)
    reach_w = (columns(conv, config) - 1) * conv.stride[1] + _reach(conv, 1)
    padded = pad_spatial(data, conv.padding, (reach_h, reach_w), PAD)

    ic_bn = config.ic_bn or conv.in_channels
    in_blocks = conv.in_channels // conv.groups // ic_bn
    out_blocks_per_group = conv.out_channels // conv.groups // config.oc_bn
    ico = te.reduce_axis((0, in_blocks), name="ico")
    kh = te.reduce_axis((0, conv.kernel[0]), name="kh")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")
    ici = te.reduce_axis((0, ic_bn), name="ici")

    def pixel(n, o, y, x):
        row, col = (
            y * conv.stride[0] + kh * conv.dilation[0],
            x * conv.stride[1] + kw * conv.dilation[1],
        )
        if config.ic_bn == 0:
            return padded[n, ici, row, col]
        block = ico if conv.groups == 1 else o // out_blocks_per_group * in_blocks + ico
        return padded[n, block, row, col, ici]

    acc = te.compute(
        (
            conv.batch,
            conv.out_channels // config.oc_bn,
            tile_rows * config.reg_m,
            columns(conv, config),
            config.tile_channels,
        ),
        lambda n, o, y, x, c: te.sum(
            pixel(n, o, y, x) * weight[o, ico, kh, kw, ici, c], axis=[ico, kh, kw, ici]
        ),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )
    out_shape = (*acc.shape[:2], conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda *index: acc(*index), name=STORE)


def schedule(sch: Schedule, anchor: Anchor) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    config, acc = anchor.config, anchor.block
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    chunk, tile, reduction = tile_output(sch, acc, config)
    if config.unroll_ker:
        steps.unroll_all(sch, reduction[2])
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, pixels=2)
    prefetch_next_panel(sch, reduction[-1])
    prefetch_next_pixels(sch, reduction[-1], anchor.workload)
    steps.hold_tile_in_registers(sch, acc, reduction[0])
    place_padding(sch, PAD, None if config.parallel_oc else chunk)
    return output


def tile_output(
    sch: Schedule, acc: SBlockRV, config: ConvConfig
) -> tuple[LoopRV, LoopRV, list[LoopRV]]:
    """Tile the output; returns the parallel loop, the loop over tiles, the reduction loops.

    # for n, o, y, x, c, ico, kh, kw, ici  ->
    # parallel for n_yb: for o, yo, xo: for ico, kh, kw, ici: for yi, xi, c

    Two tiles that do not divide the columns are written out one after the other, 9 and 8 of 17:
    what the second lacks is then known and no pixel is computed in vain.
    """
    n, o, y, x, c, *reduction = sch.get_loops(acc)
    y, yi = steps.split_off(sch, y, config.reg_m)
    width = steps.loop_extent(sch, x)
    xo, xi = steps.split_off(sch, x, config.reg_n)
    yb, yo = steps.split_off(sch, y, largest_factor(steps.loop_extent(sch, y), config.oh_bn))
    order = (n, o, yb) if config.parallel_oc else (n, yb, o)
    sch.reorder(*order, yo, xo, *reduction, yi, xi, c)
    chunk = steps.parallel_fused(sch, *(order if config.parallel_oc else order[:2]))
    if width % config.reg_n:
        steps.unroll_all(sch, xo)
    return chunk, xo, reduction


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: ConvConfig) -> np.ndarray:
    """(K, C/groups, R, S) -> (K/oc_bn, C/groups/ic_bn, R, S, ic_bn, tile_channels), contiguous.

    Channels that only fill a vector are zero.
    """
    ic_bn = config.ic_bn or conv.in_channels
    out_channels, in_channels, height, width = weight.shape
    blocked = weight.reshape(
        out_channels // config.oc_bn, config.oc_bn, in_channels // ic_bn, ic_bn, height, width
    )
    packed = np.zeros(packed_shape(conv, config), weight.dtype)
    packed[..., : config.oc_bn] = blocked.transpose(0, 2, 4, 5, 3, 1)
    return packed


def packed_shape(conv: ConvWorkload, config: ConvConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    ic_bn = config.ic_bn or conv.in_channels
    blocks = (conv.out_channels // config.oc_bn, conv.in_channels // conv.groups // ic_bn)
    return (*blocks, *conv.kernel, ic_bn, config.tile_channels)


def tiles(conv: ConvWorkload, config: ConvConfig) -> tuple[int, int]:
    """Register tiles down and across the output; the last ones may overhang it."""
    return -(-conv.out_height // config.reg_m), -(-conv.out_width // config.reg_n)


def columns(conv: ConvWorkload, config: ConvConfig) -> int:
    """Columns computed: just the output's where two tiles cover them, else those of whole tiles."""
    return computed_columns(conv.out_width, config.reg_n)


def _reach(conv: ConvWorkload, axis: int) -> int:
    """Input rows (or columns) that one output row needs."""
    return conv.dilation[axis] * (conv.kernel[axis] - 1) + 1
