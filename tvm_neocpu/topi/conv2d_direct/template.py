"""Direct convolution in NCHW[x]c: compute, schedule and weight packing (NeoCPU, section 3.1.1).

The register tile is ``reg_m`` rows x ``reg_n`` columns x ``oc_bn`` channels. Each step of the
reduction loads ``oc_bn`` weights once and multiplies them with broadcast input pixels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.core.machine.dot import SMLAL, DotProduct
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.math.half_precision import as_packed, widened
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import pad_spatial, place_padding
from tvm_neocpu.topi.tir.functions.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch.prefetch_pixels import prefetch_next_pixels
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel
from tvm_neocpu.topi.tir.tiles.skip_padding import skip_taps

PAD, ACCUMULATE, STORE = "conv2d_pad", "conv2d_acc", "conv2d_store"
# The axes of the accumulator that count the output's rows and columns.
PLACES = 2, 3
# A loop of fewer words is unrolled, whatever it spills: a first convolution of integers has two.
MIN_ROLLED_WORDS = 8
# AVX2 and SSE have so many: too few for the weights of three steps.
FEW_REGISTERS = 16


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: ConvConfig
) -> te.Tensor:
    """The convolution over blocked tensors.

    ``data``: (N, C/ic_bn, H, W, ic_bn), or (N, C, H, W) when ``ic_bn == 0``.
    ``weight``: (K/oc_bn, C/groups/ic_bn, R, S, ic_bn, tile_channels) of :func:`pack_weight`.
    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    geometry = DirectGeometry(conv, config)
    parts = geometry.groups_read
    padded = pad_spatial(data, conv.padding, geometry.padded_extent, PAD, parts=parts)

    def product(pixel, filters):
        n, _, row, col, channel = pixel
        value = padded[n, channel, row, col] if config.ic_bn == 0 else padded[pixel]
        wide = conv.types.accumulator
        return value.astype(wide) * widened(weight(*filters), wide)

    return summed(product, geometry)


def summed(
    product: Callable[..., tirx.Expr],
    geometry: DirectGeometry,
    correction: Callable[..., tirx.Expr] | None = None,
) -> te.Tensor:
    """What ``product`` makes of a pixel and its filters, summed over windows and channels.

    ``product`` takes two indices: (n, block, row, column, step) of the padded image, and that of
    the packed weight. ``correction`` of (block, lane) is added to a sum. Returns (N, K/oc_bn, OH,
    OW, oc_bn).
    """
    conv, config, in_blocks = geometry.conv, geometry.config, geometry.in_blocks
    out_blocks_per_group = geometry.out_blocks // conv.groups
    ico = te.reduce_axis((0, in_blocks), name="ico")
    kh = te.reduce_axis((0, geometry.kernel[0]), name="kh")
    kw = te.reduce_axis((0, geometry.kernel[1]), name="kw")
    ici = te.reduce_axis((0, geometry.inner_steps), name="ici")

    def term(n, o, y, x, c):
        row = y * geometry.stride[0] + kh * conv.dilation[0]
        col = x * geometry.stride[1] + kw * conv.dilation[1]
        block = ico if conv.groups == 1 else o // out_blocks_per_group * in_blocks + ico
        return product((n, block, row, col, ici), (o, ico, kh, kw, ici, c))

    acc = te.compute(
        (conv.batch, geometry.out_blocks, geometry.rows, geometry.columns, config.tile_channels),
        lambda *index: te.sum(term(*index), axis=[ico, kh, kw, ici]),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )

    parts = geometry.groups_written

    def stored(n, o, y, x, c):
        if parts > 1:  # of a block of several groups
            o, c = o * parts + c // geometry.oc_bn, c % geometry.oc_bn
        value = acc(n, o, y, x, c) if correction is None else acc(n, o, y, x, c) + correction(o, c)
        return value.astype(conv.types.output)

    out_blocks = geometry.out_blocks // parts
    out_shape = (conv.batch, out_blocks, conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, stored, name=STORE)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = DirectGeometry(anchor.workload, anchor.config)
    output, chunk = schedule_tiles(sch, anchor, geometry, cpu)
    place = _row_read_once(sch, anchor.block, geometry)
    if place is None:
        place = padded_in(sch, anchor.block, chunk, geometry)
    place_padding(sch, PAD, place, cpu.unit(geometry.conv.types.data))
    return output


def schedule_tiles(
    sch: Schedule, anchor: Anchor, geometry: DirectGeometry, cpu: Cpu
) -> tuple[SBlockRV, LoopRV]:
    """Schedule what :func:`summed` computes; returns the output's block and the parallel loop."""
    conv, config, acc = geometry.conv, geometry.config, anchor.block
    unit, dot = cpu.unit(conv.types.accumulator), geometry.dot(cpu)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    streams = geometry.streams(cpu)
    chunk, tile, reduction = tile_output(sch, acc, geometry, streams)
    for taps, place, axis in zip(reduction[1:3], PLACES, geometry.tap_axes, strict=False):
        skip_taps(sch, taps, place, axis)
    if config.unroll_ker:
        steps.unroll_all(sch, reduction[2])
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=2 + (streams > 1))
    if streams == 1:  # several are requests enough
        prefetch_next_panel(sch, reduction[-1])
    prefetch_next_pixels(sch, reduction[-1], conv.kernel, conv.stride)
    pixels, vectors = config.reg_m * config.reg_n, unit.registers_of(config.tile_channels) * streams
    if dot is None:
        keep_rolled(sch, reduction[-1], pixels, vectors, unit)
    elif geometry.inner_steps >= MIN_ROLLED_WORDS:
        keep_rolled(sch, reduction[-1], pixels, vectors, unit, _beside_tile(dot, vectors, unit))
    # smlal multiplies by an element of a register; LLVM broadcasts the words of wider statements.
    # Dead lanes are not stored: what reads the tile reads its registers one by one.
    singly = (dot is not None and dot.name == SMLAL.name) or config.oc_lanes > config.oc_bn
    registers = 1 if singly else steps.MAX_VECTORS
    steps.hold_tile_in_registers(sch, acc, reduction[0], unit, registers)
    return output, chunk


def _beside_tile(dot: DotProduct, vectors: int, unit: VectorUnit) -> int:
    """Registers that LLVM wants beside a tile: a product's own, and weights of other steps.

    LLVM unrolls a loop of 12 words by 3 and loads the weights of all three steps first. 16
    registers do not hold them (Zen 3, 144x56x56->24 on 2 threads, 2 pixels x 3 vectors: 188 us in
    blocks of 24 channels, 94 in blocks of 16; kept rolled both take as long). The other two steps
    have 2 * vectors of them. One fewer counts: that leaves vpmaddwd's 3 pixels x 2 vectors to LLVM.
    """
    mixed = 2 * vectors - 1 if dot.temporaries and unit.registers <= FEW_REGISTERS else 0
    return dot.temporaries + mixed


def tile_output(
    sch: Schedule, acc: SBlockRV, geometry: DirectGeometry, streams: int = 1
) -> tuple[LoopRV, LoopRV, list[LoopRV]]:
    """Tile the output; returns the parallel loop, the loop over tiles, the reduction loops.

    # for n, o, y, x, c, ico, kh, kw, ici  ->
    # parallel for n_yb: for o, yo, xo: for ico, kh, kw, ici: for yi, xi, c

    Two tiles that do not divide the columns are written out one after the other, 9 and 8 of 17.
    The extent of the second is then a constant and no pixel is computed in vain. ``streams``
    blocks of channels share a tile of one pixel; they take the place of ``yi``.
    """
    config = geometry.config
    n, o, y, x, c, *reduction = sch.get_loops(acc)
    if streams > 1:
        o, yi = steps.split_off(sch, o, streams)
    else:
        y, yi = steps.split_off(sch, y, config.reg_m)
    width = steps.loop_extent(sch, x)
    xo, xi = steps.split_off(sch, x, config.reg_n)
    yb, yo = steps.split_off(sch, y, geometry.chunk_rows)
    order = (n, o, yb) if config.parallel_oc else (n, yb, o)
    sch.reorder(*order, yo, xo, *reduction, yi, xi, c)
    chunk = steps.parallel_fused(sch, *(order if config.parallel_oc else order[:2]))
    if width % config.reg_n:
        steps.unroll_all(sch, xo)
    return chunk, xo, reduction


def _row_read_once(sch: Schedule, acc: SBlockRV, geometry: DirectGeometry) -> LoopRV | None:
    """The loop over rows of tiles, where each reads rows of the input that nothing else reads.

    The copy of a row (gated by squeeze-excite) stays in L1; that of a chunk may be the whole image,
    1.6 MB of 32x112x112.
    """
    if not geometry.reads_rows_once:
        return None
    return sch.get_loops(acc)[1 if geometry.config.parallel_oc else 2]


def padded_in(
    sch: Schedule, acc: SBlockRV, chunk: LoopRV, geometry: DirectGeometry
) -> LoopRV | None:
    """The loop in which a copy of the input is padded; ``None`` for a pass of its own.

    What one block of output channels alone reads is padded for that block: it stays in L1.
    """
    if geometry.pads_by_block:
        return sch.get_loops(acc)[0 if geometry.config.parallel_oc else 1]
    return None if geometry.config.parallel_oc else chunk


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: ConvConfig) -> np.ndarray:
    """(K, C/groups, R, S) -> (K/oc_bn, C/groups/ic_bn, R, S, ic_bn, tile_channels), contiguous.

    Channels that only fill a vector are zero.
    """
    geometry = DirectGeometry(conv, config)
    ic_bn, (height, width) = geometry.ic_bn, conv.kernel
    blocks = geometry.out_blocks, geometry.oc_bn, geometry.in_blocks, ic_bn
    stored = as_packed(weight)
    packed = np.zeros(packed_shape(conv, config), stored.dtype)
    blocked = stored.reshape(*blocks, height, width)
    packed[..., : geometry.oc_bn] = blocked.transpose(0, 2, 4, 5, 3, 1)
    return packed


def packed_shape(conv: ConvWorkload, config: ConvConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return DirectGeometry(conv, config).packed_shape
