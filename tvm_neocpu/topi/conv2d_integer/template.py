"""Integer convolution in NCHW[x]c: the direct template's loops over words of channels.

Each step of the reduction loads ``oc_bn`` words of weights once and multiplies them with broadcast
words of pixels; the sums are 32 bits wide and exact. Where words are not what the image consists
of, a chunk's rows are copied first: widened to 16 bits, padded by the zero point, filled up.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.template import tile_output
from tvm_neocpu.topi.conv2d_integer.geometry import (
    WEIGHT_TYPES,
    IntegerConfig,
    IntegerGeometry,
)
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot, word
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import cut_at_borders, inside_or, place_padding
from tvm_neocpu.topi.tir.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch_pixels import prefetch_next_pixels
from tvm_neocpu.topi.tir.prefetch_weights import prefetch_next_panel

# A loop of fewer words than this is unrolled, whatever it spills: a first convolution's has two.
MIN_ROLLED = 8
COPY, ACCUMULATE, STORE = "conv2d_words", "conv2d_acc", "conv2d_store"


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: IntegerConfig
) -> te.Tensor:
    """The convolution over blocked tensors.

    ``data``: (N, C/ic_bn, H, W, ic_bn), or (N, C, H, W) when ``ic_bn == 0``.
    ``weight``: (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels) of :func:`pack_weight`.
    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    geometry = IntegerGeometry(conv, config)
    image = _copy(data, geometry) if geometry.is_padded else data
    out_blocks_per_group = geometry.out_blocks // conv.groups
    ico = te.reduce_axis((0, geometry.in_blocks), name="ico")
    kh = te.reduce_axis((0, conv.kernel[0]), name="kh")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")
    ici = te.reduce_axis((0, geometry.words), name="ici")

    def pixel(n, o, y, x):
        row = y * geometry.stride[0] + kh * conv.dilation[0]
        col = x * geometry.stride[1] + kw * conv.dilation[1]
        block = ico
        if conv.groups > 1:
            block = o // out_blocks_per_group * geometry.in_blocks + ico
        first = ici * config.dot
        return word(*(image[n, block, row, col, first + at] for at in range(config.dot)))

    acc = te.compute(
        (conv.batch, geometry.out_blocks, geometry.rows, geometry.columns, config.tile_channels),
        lambda n, o, y, x, c: te.sum(
            dot(pixel(n, o, y, x), weight[o, ico, kh, kw, ici, c]), axis=[ico, kh, kw, ici]
        ),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )
    out_shape = (*acc.shape[:2], conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda *i: acc(*i).astype(conv.types.output), name=STORE)


def _copy(data: te.Tensor, geometry: IntegerGeometry) -> te.Tensor:
    """The image in words: (N, blocks, rows, columns, channels of whole words).

    What fills up the last word of a block is its last channel once more; its weights are zero.
    """
    conv, config = geometry.conv, geometry.config
    (top, left, bottom, right), (rows, cols) = conv.padding, geometry.padded_extent
    image, step = (conv.height, conv.width), (1, 1)
    if geometry.skips_pixels:
        image, step = (conv.out_height, conv.out_width), conv.stride
    whole = max(image[0] + top + bottom, rows), max(image[1] + left + right, cols)
    lanes = geometry.words * config.dot

    def copied(n, b, y, x, c):
        channel = tirx.min(c, geometry.ic_bn - 1) if lanes > geometry.ic_bn else c
        row, col = (y - top) * step[0], (x - left) * step[1]
        plain = config.ic_bn == 0
        pixel = data(n, channel, row, col) if plain else data(n, b, row, col, channel)
        pixel = pixel.astype(geometry.data_type)
        return inside_or((y, x), (top, left), image, whole, pixel, conv.pad_value)

    blocks = conv.in_channels // geometry.ic_bn
    return te.compute((conv.batch, blocks, *whole, lanes), copied, name=COPY)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    conv, config, acc = anchor.workload, anchor.config, anchor.block
    unit, geometry = cpu.unit(conv.types.accumulator), IntegerGeometry(conv, config)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    chunk, tile, reduction = tile_output(sch, acc, geometry)
    if config.unroll_ker:
        steps.unroll_all(sch, reduction[2])
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=2)
    prefetch_next_panel(sch, reduction[-1])
    prefetch_next_pixels(sch, reduction[-1], conv.kernel, conv.stride)
    pixels, vectors = config.reg_m * config.reg_n, unit.registers_of(config.tile_channels)
    if geometry.words >= MIN_ROLLED:
        by = cpu.dot_of(config.dot)
        keep_rolled(sch, reduction[-1], pixels, vectors, unit, by.temporaries)
    # A statement for each vector: an instruction has no more lanes than a register.
    steps.hold_tile_in_registers(sch, acc, reduction[0], unit, registers=1)
    _place_copy(sch, None if config.parallel_oc else chunk, geometry, cpu)
    return output


def _place_copy(sch: Schedule, chunk: LoopRV | None, geometry: IntegerGeometry, cpu: Cpu) -> None:
    """Before a chunk, what it reads; an image in plain NCHW is read plane by plane.

    # for x: for c: words[x, c] = data[c, x]  ->  for x: words[x, 0] = data[0, x]; words[x, 1] = ..
    """
    copy = steps.find_block(sch, COPY)
    if copy is None or geometry.config.ic_bn:
        place_padding(sch, COPY, chunk, cpu.unit(geometry.data_type))
        return
    if chunk is not None:
        sch.compute_at(copy, chunk, preserve_unit_loops=True)
    else:
        steps.parallel_fused(sch, *sch.get_loops(copy)[:-2])
    *_, cols, channels = sch.get_loops(copy)
    cut_at_borders(sch, cols)
    steps.unroll_all(sch, channels)


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: IntegerConfig) -> np.ndarray:
    """(K, C/groups, R, S) -> words (K/oc_bn, C/groups/ic_bn, R, S, words, tile_channels).

    Channels that only fill a vector or a word are zero.
    """
    geometry = IntegerGeometry(conv, config)
    ic_bn, (height, width), kind = geometry.ic_bn, conv.kernel, WEIGHT_TYPES[config.dot]
    elements = np.zeros((*packed_shape(conv, config), config.dot), kind)
    blocked = weight.reshape(
        geometry.out_blocks, config.oc_bn, geometry.in_blocks, ic_bn, height, width
    )
    filling = [(0, 0)] * 3 + [(0, geometry.words * config.dot - ic_bn)] + [(0, 0)] * 2
    filled = np.pad(blocked, filling)
    words = filled.reshape(*blocked.shape[:3], geometry.words, config.dot, height, width)
    elements[..., : config.oc_bn, :] = words.transpose(0, 2, 5, 6, 3, 1, 4)
    return elements.view(WORD_TYPE)[..., 0]


def packed_shape(conv: ConvWorkload, config: IntegerConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return IntegerGeometry(conv, config).packed_shape
