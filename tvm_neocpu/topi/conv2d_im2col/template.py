"""Convolution as one matrix product over all pixels of the batch, in NCHW[x]c.

Batch, rows and columns of the output are one axis of *pixels*, cut into register tiles of ``reg_n``
of them: only the last tile can overhang, and a batch of single pixels walks the weights once. What
a tile multiplies is copied into *columns* first (im2col): for every tap of the kernel and block of
channels, a run of pixels. The copy resolves stride, dilation and padding. A product reads ``data``
in place where that is such a column matrix already: 1x1 kernels over blocked data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig, Im2colGeometry
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.prologue import is_computed, take_parts
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop
from tvm_neocpu.topi.tir.functions.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch.prefetch_pixels import prefetch_next_run
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel
from tvm_neocpu.topi.tir.tiles.part_by_part import walk_part_by_part
from tvm_neocpu.topi.tir.tiles.parts_by_address import copy_by_address

PAD, COLUMNS, PRODUCT, STORE = "im2col_pad", "im2col_columns", "im2col_product", "im2col_store"
# At most so many pixels are copied in one go where columns are copied in a pass of their own.
PIECE = 64
# More channel blocks than this would be a lot of code for one stage.
MAX_UNROLLED_BLOCKS = 64


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: Im2colConfig
) -> te.Tensor:
    """``data``: (N, C/ic_bn, H, W, ic_bn), or (N, C, H, W) when ``ic_bn == 0``.

    ``weight``: that of :func:`pack_weight`.
    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    geometry = Im2colGeometry(conv, config, computed=is_computed(data))
    height, width = conv.out_height, conv.out_width
    kernel_rows, kernel_cols = conv.kernel
    columns = None if geometry.reads_in_place else _columns(data, geometry)

    def column(tap, f, ici):
        if columns is None:
            row, batch = f // width, conv.batch > 1
            n, y = (row // height, row % height) if batch else (0, row)
            return data[n, tap, y, f % width, ici]
        block, spot = tap // (kernel_rows * kernel_cols), tap % (kernel_rows * kernel_cols)
        return columns[block, spot // kernel_cols, spot % kernel_cols, f, ici]

    tap = te.reduce_axis((0, geometry.part_steps), name="tap")
    ici = te.reduce_axis((0, geometry.ic_bn), name="ici")
    part = te.reduce_axis((0, config.parts), name="part")
    wide = conv.types.accumulator

    def term(o, f, c):
        step, panel = tap, [o]
        if config.parts > 1:
            step = part * geometry.part_steps + tap
            panel = [o, part] if config.parallel_oc else [part, o]
        return column(step, f, ici).astype(wide) * weight(*panel, tap, ici, c).astype(wide)

    axes = [tap, ici] if config.parts == 1 else [part, tap, ici]
    product = te.compute(
        (geometry.out_blocks, geometry.computed_pixels, config.tile_channels),
        lambda o, f, c: te.sum(term(o, f, c), axis=axes),
        name=PRODUCT,
        attrs=anchor_attrs(conv, config),
    )
    return te.compute(
        (conv.batch, geometry.out_blocks, height, width, config.oc_bn),
        lambda n, o, y, x, c: product[o, (n * height + y) * width + x, c].astype(conv.types.output),
        name=STORE,
    )


def _columns(data: te.Tensor, geometry: Im2colGeometry) -> te.Tensor:
    """(C/ic_bn, R, S, pixels, ic_bn). What overhangs the batch repeats its last row of plain data,
    its last pixel of blocked data.
    """
    conv = geometry.conv
    rows, width = conv.batch * conv.out_height, conv.out_width
    plain = geometry.config.ic_bn == 0
    source = _padded_phases(data, conv) if plain else _padded_pixels(data, conv)

    def copied(block, kh, kw, f, ici):
        # Bounded by itself, a pixel's place stays a sum: the copy of a 1x1 kernel is a run.
        f = tirx.min(f, rows * width - 1) if geometry.overhangs and not plain else f
        row = tirx.min(f // width, rows - 1) if geometry.overhangs and plain else f // width
        y = row % conv.out_height * conv.stride[0] + kh * conv.dilation[0]
        return source(row // conv.out_height, block, y, f % width, kw, ici)

    shape = (geometry.in_blocks, *conv.kernel, geometry.computed_pixels, geometry.ic_bn)
    return te.compute(shape, copied, name=COLUMNS)


def _padded_phases(data: te.Tensor, conv: ConvWorkload) -> Callable[..., tirx.Expr]:
    """Reads plain data, padded and split by the stride's phase beforehand: x is at [x % s, x // s].

    A run of pixels is then a run in memory for every tap, which vectors can copy.
    """
    top, left, bottom, right = conv.padding
    stride = conv.stride[1]
    width = -(-(conv.width + left + right) // stride)

    def phased(n, c, y, phase, x):
        row, col = y - top, x * stride + phase - left
        zero = tirx.const(0, data.dtype)
        value = tirx.if_then_else(tirx.all(col >= 0, col < conv.width), data[n, c, row, col], zero)
        return tirx.if_then_else(tirx.all(row >= 0, row < conv.height), value, zero)

    shape = (conv.batch, conv.in_channels, conv.height + top + bottom, stride, width)
    phases = te.compute(shape, phased, name=PAD)

    def read(n, c, y, x, kw, ici):
        offset = kw * conv.dilation[1]
        return phases[n, c, y, offset % stride, x + offset // stride]

    return read


def _padded_pixels(data: te.Tensor, conv: ConvWorkload) -> Callable[..., tirx.Expr]:
    """Reads blocked data; a vector of channels needs one test for the padding."""
    top, left, bottom, right = conv.padding

    def read(n, block, y, x, kw, ici):
        col = x * conv.stride[1] + kw * conv.dilation[1]
        tests = (
            (top, y >= top),
            (bottom, y < conv.height + top),
            (left, col >= left),
            (right, col < conv.width + left),
        )
        inside = [test for needed, test in tests if needed]
        pixel = data[n, block, y - top, col - left, ici]
        if not inside:
            return pixel
        return tirx.if_then_else(tirx.all(*inside), pixel, tirx.const(0, data.dtype))

    return read


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused.

    # parallel chunk of pixels: columns; for o, tile: (tile = 0; for tap, ici: tile += ..; store)

    Of a reduction in parts each is walked by all tiles of a chunk before the next.
    """
    conv, config, product = anchor.workload, anchor.config, anchor.block
    unit = cpu.unit(conv.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    flatten_pixels(sch, output, conv)
    geometry = Im2colGeometry(conv, config, computed=steps.find_block(sch, COLUMNS) is not None)
    chunk, tile, reduction = tile_pixels(sch, product, geometry)
    if config.parts > 1:
        walk_part_by_part(sch, chunk, reduction[0])
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=1 + (config.reg_o > 1))
    prefetch_next_panel(sch, reduction[-1])
    if geometry.asks_for_pixels(cpu):
        prefetch_next_run(sch, reduction[-1])
    vectors = unit.registers_of(config.oc_bn) * config.reg_o
    keep_rolled(sch, reduction[-1], config.reg_n, vectors, unit)
    # Dead lanes are not stored: what reads the tile reads its registers one by one.
    registers = 1 if config.oc_lanes > config.oc_bn else steps.MAX_VECTORS
    steps.hold_tile_in_registers(sch, product, reduction[0], unit, registers)
    place_columns(sch, chunk, conv, config, cpu.unit(conv.types.data))
    return output


def flatten_pixels(sch: Schedule, output: SBlockRV, conv: ConvWorkload) -> None:
    """# for n, o, y, x, c: out[n, o, y, x, c]  ->  for o, f, c: out[f // (OH * OW), o, .., c]."""
    height, width = conv.out_height, conv.out_width
    sch.transform_block_layout(output, lambda n, o, y, x, c: (o, (n * height + y) * width + x, c))


def tile_pixels(
    sch: Schedule, product: SBlockRV, geometry: Im2colGeometry
) -> tuple[LoopRV, LoopRV, list[LoopRV]]:
    """Returns the parallel loop, the loop over tiles, the reduction loops.

    # for o, f, c, tap, ici  ->  parallel q: for o, t: for tap, ici: for i, b, c

    A tile is a row of pixels for each of its blocks of output channels, as
    :func:`steps.hold_tile_in_registers` expects it. A narrower one at the end becomes a loop nest
    of its own: 196 pixels are 32 tiles of 6 and one of 4, 13 blocks are 6 tiles of 2 and one of 1.
    """
    config = geometry.config
    o, f, c, *reduction = sch.get_loops(product)
    o, b = steps.split_off(sch, o, config.reg_o)
    q, f = steps.split_off(sch, f, geometry.chunk_pixels)
    t, i = steps.split_off(sch, f, config.reg_n)
    order = (o, q) if config.parallel_oc else (q, o)
    sch.reorder(*order, t, *reduction, i, b, c)
    if geometry.last_blocks < config.reg_o:
        cut_loop(sch, o)
    if geometry.last_tile < config.reg_n:
        cut_loop(sch, t)
    return steps.parallel_fused(sch, *order[: 1 + config.parallel_oc]), t, reduction


def place_columns(
    sch: Schedule, chunk: LoopRV, conv: ConvWorkload, config: Im2colConfig, unit: VectorUnit
) -> None:
    """Copy a chunk's columns just before it; all of them at once where chunks split channels.

    # blocked: for f: for block, kh, kw: vectors of ici;  plain: for c, kh, kw, row: vectors of x
    # blocked, a kernel of one tap: for block: for f: vectors of ici

    The taps of a window lie side by side, so that a window is copied at once. A kernel of one tap
    has no such neighbours: pixel by pixel, each block's would be a stride away from the last one's.

    Of a concat in front each block has its address. Padding's loop over x is cut where the image
    begins and ends: LLVM vectorises what is between (Zen 5, 3x224x224 to 32, 3x3, stride 2: 300 us
    before, 230 after).
    """
    pad = steps.find_block(sch, PAD)
    if pad is not None:
        take_parts(sch, pad)
        *rows, phase, x = sch.get_loops(pad)
        steps.unroll_all(sch, phase)
        cut_loop(sch, x)
        steps.parallel_fused(sch, *rows)
    columns = steps.find_block(sch, COLUMNS)
    if columns is None:
        return
    parts = take_parts(sch, columns)
    if not config.parallel_oc:
        sch.compute_at(columns, chunk, preserve_unit_loops=True)
    *_, block, kh, kw, f, ici = sch.get_loops(columns)
    if config.ic_bn and conv.kernel == (1, 1):
        _place_run(sch, columns, conv, config, unit, parts)
        return
    whole_rows = steps.loop_extent(sch, f) % conv.out_width == 0
    if whole_rows:
        f, x = steps.split_off(sch, f, conv.out_width)
    if config.ic_bn:
        sch.reorder(f, block, kh, kw)
        # By address they would be written anew for each window.
        if parts > 1 and steps.loop_extent(sch, block) <= MAX_UNROLLED_BLOCKS:
            steps.unroll_all(sch, block)
        steps.vectorize_lanes(sch, ici, unit)
    elif whole_rows:
        steps.vectorize_lanes(sch, x, unit)
    if config.parallel_oc:
        steps.parallel_fused(sch, *((f,) if config.ic_bn else (block, kh, kw)))


def _place_run(
    sch: Schedule,
    columns: SBlockRV,
    conv: ConvWorkload,
    config: Im2colConfig,
    unit: VectorUnit,
    parts: int,
) -> None:
    """# for block, f, ici  ->  parallel piece of f: for block: for f: vectors of ici.

    Only columns that are copied in one pass are cut into pieces.
    """
    *_, block, _, _, f, ici = sch.get_loops(columns)
    if config.parallel_oc:
        pixels = steps.loop_extent(sch, f)
        most = min(PIECE, pixels // 2)
        piece, f = steps.split_off(sch, f, largest_factor(pixels, most))
        sch.reorder(piece, block, f)
        steps.parallel_fused(sch, piece)
    if parts > 1:
        copy_by_address(sch, block)
    steps.vectorize_lanes(sch, ici, unit)


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: Im2colConfig) -> np.ndarray:
    """(K, C, R, S) -> :attr:`Im2colGeometry.packed_shape`, contiguous.

    Channels that only fill a vector are zero.
    """
    geometry = Im2colGeometry(conv, config)
    blocks = geometry.out_blocks, config.oc_bn, geometry.in_blocks, geometry.ic_bn
    blocked = weight.reshape(*blocks, *conv.kernel)
    packed = np.zeros(geometry.packed_shape, weight.dtype)
    ordered = blocked.transpose(0, 2, 4, 5, 3, 1)
    panels = ordered.reshape(geometry.out_blocks, config.parts, *packed.shape[-3:-1], config.oc_bn)
    if config.parts > 1 and not config.parallel_oc:
        panels = panels.swapaxes(0, 1)
    packed[..., : config.oc_bn] = panels.reshape(*packed.shape[:-1], config.oc_bn)
    return packed


def packed_shape(conv: ConvWorkload, config: Im2colConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return Im2colGeometry(conv, config).packed_shape
