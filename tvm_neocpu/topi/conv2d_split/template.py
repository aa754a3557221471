"""Convolution by products of bytes, over data that are split into low and high parts.

    for ico, kh, kw:                             # blocks of input channels, taps
        if level[ico] == 0:                      # of the pixels that this tap of the tile reads
            for ici: acc += dot(low[ico, ici], w)     # two words at once
        else:
            for ici: acc += dot(low[ico, ici], w)     # one word after the other
            if level[ico] > 1:
                for ici: acc += dot(high[ico, ici], w)

Channels c and c + ic_bn / 2 are neighbours in a word: so two vectors of channels become one of
pairs without a shuffle.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import PAIRS_FIT
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.template import (
    ACCUMULATE,
    MIN_ROLLED_WORDS,
    STORE,
    padded_in,
    tile_output,
)
from tvm_neocpu.topi.conv2d_integer import template as integer
from tvm_neocpu.topi.conv2d_split.geometry import (
    LARGEST_LOW,
    LARGEST_SUM,
    PARTS,
    WORDS,
    SplitConfig,
    SplitGeometry,
    temporaries_of,
)
from tvm_neocpu.topi.math.dot_products import dot, word
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import inside_or
from tvm_neocpu.topi.tir.functions.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel
from tvm_neocpu.topi.tir.tiles.skip_parts import ONE_WORD, TWO_WORDS, skip_part

SPLIT, OF_LANES = "conv2d_split", "conv2d_worst_of_lanes"
OF_PIXELS, OF_TILES = "conv2d_worst_of_pixels", "conv2d_worst"
# The axis of rows in what is copied and what is known of it.
ROWS = 2
BYTE_BITS, LOW_BYTE = 8, 255
# No sum of four bytes has it.
CUT_BIT = 12


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: SplitConfig
) -> te.Tensor:
    """``data``: (N, C/ic_bn, H, W, ic_bn), ``weight`` of :func:`pack_weight`.

    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    geometry = SplitGeometry(conv, config)
    split = _split(data, geometry)
    worst = _worst(split, geometry)
    (down, across), (down_taps, across_taps) = geometry.stride, conv.dilation
    ico = te.reduce_axis((0, geometry.in_blocks), name="ico")
    kh = te.reduce_axis((0, conv.kernel[0]), name="kh")
    kw = te.reduce_axis((0, conv.kernel[1]), name="kw")
    part = te.reduce_axis((0, PARTS), name="part")
    ici = te.reduce_axis((0, geometry.inner_steps), name="ici")

    def term(n, o, y, x, c):
        at = y * down + kh * down_taps, x * across + kw * across_taps
        level = _level(worst(n, ico, *geometry.flag_of((y, x), (kh, kw))))

        def factors(which):
            first = which * geometry.pairs // WORDS + 2 * ici
            pairs = (split(n, ico, part, *at, first + half) for half in (0, 1))
            return word(*pairs), weight(o, ico, kh, kw, WORDS * ici + which, c)

        return dot(*map(factors, range(WORDS)), weight_bits=PAIRS_FIT, needed=level)

    acc = te.compute(
        (conv.batch, geometry.out_blocks, geometry.rows, geometry.columns, config.tile_channels),
        lambda *index: te.sum(term(*index), axis=[ico, kh, kw, part, ici]),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )
    out_shape = (*acc.shape[:2], conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda *i: acc(*i).astype(conv.types.output), name=STORE)


def _split(data: te.Tensor, geometry: SplitGeometry) -> te.Tensor:
    """Pairs of bytes: (N, blocks, parts, rows, columns, pairs), of the padded image."""
    conv, pairs, whole = geometry.conv, geometry.pairs, geometry.copied_extent
    top, left, _, _ = conv.padding
    image, (down, across) = (conv.height, conv.width), (1, 1)
    if geometry.skips_pixels:
        image, (down, across) = (conv.out_height, conv.out_width), conv.stride

    def split(n, b, part, y, x, c):
        def channel(at):
            pixel = data(n, b, (y - top) * down, (x - left) * across, at).astype("int16")
            return inside_or((y, x), (top, left), image, whole, pixel, conv.pad_value)

        def number(value):
            return tirx.const(value, "int16")

        def high(value):
            return tirx.Select(is_large, tirx.Max(value, cut) - cut, number(0))

        first, second = channel(c), channel(c + pairs)
        cut, bits = number(LARGEST_LOW), number(BYTE_BITS)
        is_large = first + second > number(LARGEST_SUM)
        upper = high(first) | (high(second) << bits)
        both = first | (second << bits)
        return tirx.Select(part == 0, both - upper, upper).astype("uint16")

    shape = (conv.batch, geometry.in_blocks, PARTS, *whole, pairs)
    return te.compute(shape, split, name=SPLIT)


def _level(worst: tirx.Expr) -> tirx.Expr:
    """What of a tile does not fit 16 bits: nothing (0), sums of two words, sums of a word."""

    def number(value):
        return tirx.const(value, "uint16")

    is_cut = worst >= number(1 << CUT_BIT)
    beyond = tirx.Select(worst > number(LARGEST_SUM), number(TWO_WORDS), number(0))
    return tirx.Select(is_cut, number(ONE_WORD), beyond)


def _worst(split: te.Tensor, geometry: SplitGeometry) -> te.Tensor:
    """The largest sum of four bytes of a tile's pixels: (N, blocks, rows, columns).

    A bit beyond all sums says that a high part is not zero. For a kernel of one tap there is a
    number for each tile. For several taps there is one for each place of the padded image: it is
    about the pixels that one tap of a tile reads from there on. Each pixel is looked at once.
    """
    config, (_, across) = geometry.config, geometry.stride
    (rows, columns), outside = geometry.copied_extent, split.shape[:2]
    lanes = geometry.pairs // WORDS
    yi, xi = (
        te.reduce_axis((0, extent), name=name)
        for extent, name in ((config.reg_m, "yi"), (config.reg_n, "xi"))
    )

    def number(value):
        return tirx.const(value, "uint16")

    def of_lane(n, b, y, x, lane):
        low, high = (
            [split(n, b, part, y, x, lane + which * lanes) for which in range(WORDS)]
            for part in range(PARTS)
        )
        two = [(pair & number(LOW_BYTE)) + (pair >> number(BYTE_BITS)) for pair in low]
        is_cut = tirx.Min(high[0] | high[1], number(1))
        return (two[0] + two[1]) | (is_cut << number(CUT_BIT))

    if geometry.flags_tiles:

        def of_tile(n, b, ty, tx, lane):
            at = ty * config.reg_m + yi, tx * config.reg_n + xi
            return te.max(of_lane(n, b, *at, lane), axis=[yi, xi])

        tiles = te.compute((*outside, *geometry.tiles, lanes), of_tile, name=OF_LANES)
        return _largest(tiles, OF_TILES)
    pixels = te.compute((*outside, rows, columns, lanes), of_lane, name=OF_LANES)
    largest = _largest(pixels, OF_PIXELS)

    def of_tap(n, b, y, x):
        return te.max(largest(n, b, y, x + xi * across), axis=xi)

    begins = columns - (config.reg_n - 1) * across
    return te.compute((*outside, rows, begins), of_tap, name=OF_TILES)


def _largest(lanes: te.Tensor, name: str) -> te.Tensor:
    """The largest of the innermost axis."""
    *outer, count = lanes.shape
    lane = te.reduce_axis((0, count), name="lane")
    return te.compute(outer, lambda *at: te.max(lanes(*at, lane), axis=lane), name=name)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    conv, config, acc = anchor.workload, anchor.config, anchor.block
    geometry, unit = SplitGeometry(conv, config), cpu.unit(conv.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    chunk, tile, (ico, *_, part, ici) = tile_output(sch, acc, geometry)
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=2)
    prefetch_next_panel(sch, ici)
    pixels, vectors = config.reg_m * config.reg_n, unit.registers_of(config.tile_channels)
    if geometry.words >= MIN_ROLLED_WORDS:
        keep_rolled(sch, ici, pixels, vectors, unit, temporaries_of(vectors, cpu))
    skip_part(sch, part)
    # The three ways through a block spill with wider statements (skylake-avx512: 45 stores for 12).
    steps.hold_tile_in_registers(sch, acc, ico, unit, registers=1)
    _place_split(sch, padded_in(sch, acc, chunk, geometry), geometry, cpu)
    return output


def _place_split(sch: Schedule, loop: LoopRV | None, geometry: SplitGeometry, cpu: Cpu) -> None:
    """Both parts at once, of the rows that a pass of the loop reads; then what is in them.

    # for x: for part: for c  ->  for x: low[x, :] = ..; high[x, :] = ..    # vectors of pairs

    Without a loop around them both are passes of their own, in parallel over rows of tiles: one
    splits and sums up lanes, one looks for the largest sum of each tile.
    """
    unit = cpu.unit("uint16")
    split, lanes, tiles = (sch.get_sblock(name) for name in (SPLIT, OF_LANES, OF_TILES))
    pixels = steps.find_block(sch, OF_PIXELS)
    if loop is not None:
        for block in filter(None, (tiles, pixels, lanes, split)):
            sch.compute_at(block, loop, preserve_unit_loops=True)
    *_, part, y, x, c = sch.get_loops(split)
    sch.reorder(y, x, part, c)
    sch.unroll(part)
    steps.vectorize_lanes(sch, c, unit)
    if geometry.flags_tiles:
        *_, lane, yi, xi = sch.get_loops(lanes)
        sch.reorder(yi, xi, lane)
        steps.vectorize_lanes(sch, lane, unit)
    else:
        steps.vectorize_lanes(sch, sch.get_loops(lanes)[-1], unit)
    if loop is None:
        row, _ = steps.split_off(sch, y, geometry.config.reg_m)
        sch.merge(row, sch.get_loops(lanes)[ROWS])
        steps.parallel_fused(sch, *sch.get_loops(split)[: ROWS + 1])
        if pixels is not None:
            sch.compute_at(pixels, sch.get_loops(tiles)[ROWS], preserve_unit_loops=True)
        steps.parallel_fused(sch, *sch.get_loops(tiles)[: ROWS + 1])


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: SplitConfig) -> np.ndarray:
    """The integer template's words, of channels in the order in which split data lie."""
    geometry = SplitGeometry(conv, config)
    within = np.array(geometry.order)
    order = (np.arange(geometry.in_blocks)[:, None] * geometry.ic_bn + within).reshape(-1)
    return integer.pack_weight(weight[:, order], conv, config)


def packed_shape(conv: ConvWorkload, config: SplitConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return SplitGeometry(conv, config).packed_shape
