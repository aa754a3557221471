"""Convolution to few channels: lanes are input channels, and a sum over them ends each output.

The direct template's vectors are output channels. Of one or three of these most lanes stay empty:
32x512x512->1 5x5, the end of a network that makes images, ran at 4 % of the FMA peak. Here a vector
holds neighbouring channels of a pixel, as they lie in memory; each of the few filters multiplies
it, and halves of the sum are added until one number is left.
"""

from __future__ import annotations

import numpy as np
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig, FewGeometry
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import pad_spatial, place_padding

PAD, ACCUMULATE, FOLD, STORE = "few_pad", "few_acc", "few_fold", "few_store"


def compute(data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: FewConfig) -> te.Tensor:
    """``data``: (N, C/x, H, W, x), ``weight`` of :func:`pack_weight` -> (N, 1, OH, OW, K)."""
    geometry = FewGeometry(conv, config)
    padded = pad_spatial(data, conv.padding, geometry.padded_extent, PAD)
    ico = te.reduce_axis((0, geometry.in_blocks), name="ico")
    kh = te.reduce_axis((0, conv.kernel[0]), name="kh")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")
    part = te.reduce_axis((0, geometry.parts), name="part")

    def term(n, y, x, k, lane):
        row = y * conv.stride[0] + kh * conv.dilation[0]
        col = x * conv.stride[1] + kw * conv.dilation[1]
        pixel = padded[n, ico, row, col, part * config.lanes + lane]
        return pixel * weight[ico, kh, kw, part, k, lane]

    places = conv.batch, conv.out_height, geometry.columns, config.oc_bn
    sums = te.compute(
        (*places, config.lanes),
        lambda *index: te.sum(term(*index), axis=[ico, kh, kw, part]),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )
    total = _folded(sums, config.lanes)
    out_shape = (conv.batch, 1, conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda n, o, y, x, k: total(n, y, x, k, 0), name=STORE)


def _folded(sums: te.Tensor, lanes: int) -> te.Tensor:
    """# s[0:16]  ->  s[0:8] + s[8:16]  ->  ..  ->  the sum of all lanes, (.., 1)."""
    while lanes > 1:
        lanes //= 2
        sums = _halves_added(sums, lanes)
    return sums


def _halves_added(sums: te.Tensor, half: int) -> te.Tensor:
    def both(n, y, x, k, lane):
        return sums[n, y, x, k, lane] + sums[n, y, x, k, lane + half]

    return te.compute((*sums.shape[:-1], half), both, name=f"{FOLD}{half}")


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """# parallel for n_yb: pad; for yi, xo: tile = 0; for ico, kh, kw, part: tile += ..; fold

    Schedule a function in which :func:`compute` and its epilogue were fused.
    """
    geometry = FewGeometry(anchor.workload, anchor.config)
    unit = cpu.unit(geometry.conv.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    chunk, tile = _tile_output(sch, output, geometry, unit)
    lanes = 1
    while lanes < geometry.config.lanes:
        _place(sch, sch.get_sblock(f"{FOLD}{lanes}"), tile, unit)
        lanes *= 2
    _accumulate(sch, anchor.block, tile, unit)
    place_padding(sch, PAD, chunk, cpu.unit(geometry.conv.types.data))
    return output


def _tile_output(
    sch: Schedule, output: SBlockRV, geometry: FewGeometry, unit: VectorUnit
) -> tuple[LoopRV, LoopRV]:
    """The parallel loop, and the loop over tiles; a tile's outputs lie side by side in memory."""
    n, o, y, x, k = sch.get_loops(output)
    yb, yi = steps.split_off(sch, y, geometry.chunk_rows)
    xo, xi = steps.split_off(sch, x, geometry.config.reg_n)
    sch.reorder(n, o, yb, yi, xo, xi, k)
    chunk = steps.parallel_fused(sch, n, o, yb)
    if geometry.overhangs:
        steps.unroll_all(sch, xi, k)
    else:
        steps.vectorize_lanes(sch, sch.fuse(xi, k), unit)
    return chunk, xo


def _place(sch: Schedule, stage: SBlockRV, tile: LoopRV, unit: VectorUnit) -> None:
    """A stage of the tile's sums, in registers."""
    sch.compute_at(stage, tile, preserve_unit_loops=True)
    sch.set_scope(stage, 0, steps.LOCAL)
    *_, x, k, lanes = sch.get_loops(stage)
    steps.unroll_all(sch, x, k)
    steps.vectorize_lanes(sch, lanes, unit)


def _accumulate(sch: Schedule, acc: SBlockRV, tile: LoopRV, unit: VectorUnit) -> None:
    """# for x, k, lane, ico, kh, kw, part  ->  for ico, kh, kw, part: x, k unrolled: lanes"""
    sch.compute_at(acc, tile, preserve_unit_loops=True)
    *_, x, k, lane, ico, kh, kw, part = sch.get_loops(acc)
    sch.reorder(ico, kh, kw, part, x, k, lane)
    steps.hold_tile_in_registers(sch, acc, ico, unit)


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: FewConfig) -> np.ndarray:
    """(K, C, R, S) -> (C/ic_bn, R, S, parts, K, lanes), contiguous."""
    geometry = FewGeometry(conv, config)
    blocks = geometry.in_blocks, geometry.parts, config.lanes
    split = weight.reshape(config.oc_bn, *blocks, *conv.kernel)
    packed: np.ndarray = np.ascontiguousarray(split.transpose(1, 4, 5, 2, 0, 3))
    return packed


def packed_shape(conv: ConvWorkload, config: FewConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return FewGeometry(conv, config).packed_shape
