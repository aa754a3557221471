"""1x1 convolution by products of bytes, over data that are split into low and high parts.

    for ico:                                     # blocks of input channels
        for ici: acc += dot(low[ico, ici], w)
        if any_high[ico]:                        # of this tile's pixels
            for ici: acc += dot(high[ico, ici], w)

Channels c and c + ic_bn / 2 are neighbours in a word: so two vectors of channels become one of
pairs without a shuffle.
"""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.cpu import Cpu
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
    AS_SMALL_AS,
    LARGEST_LOW,
    LARGEST_SUM,
    PARTS,
    SplitConfig,
    SplitGeometry,
)
from tvm_neocpu.topi.math.dot_products import dot, word
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import inside_or
from tvm_neocpu.topi.tir.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch_weights import prefetch_next_panel
from tvm_neocpu.topi.tir.skip_parts import skip_part

SPLIT, ANY_HIGH = "conv2d_split", "conv2d_any_high"
BYTE_BITS = 8


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: SplitConfig
) -> te.Tensor:
    """``data``: (N, C/ic_bn, H, W, ic_bn), ``weight`` of :func:`pack_weight`.

    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    geometry = SplitGeometry(conv, config)
    split = _split(data, geometry)
    any_high = _any_high(split, geometry)
    ico = te.reduce_axis((0, geometry.in_blocks), name="ico")
    part = te.reduce_axis((0, PARTS), name="part")
    ici = te.reduce_axis((0, geometry.words), name="ici")

    def term(n, o, y, x, c):
        pairs = (split(n, ico, part, y, x, 2 * ici + at) for at in (0, 1))
        needed = any_high(n, ico, y // config.reg_m, x // config.reg_n)
        filters = weight(o, ico, 0, 0, ici, c)
        return dot((word(*pairs), filters), weight_bits=AS_SMALL_AS, needed=needed)

    acc = te.compute(
        (conv.batch, geometry.out_blocks, geometry.rows, geometry.columns, config.tile_channels),
        lambda *index: te.sum(term(*index), axis=[ico, part, ici]),
        name=ACCUMULATE,
        attrs=anchor_attrs(conv, config),
    )
    out_shape = (*acc.shape[:2], conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda *i: acc(*i).astype(conv.types.output), name=STORE)


def _split(data: te.Tensor, geometry: SplitGeometry) -> te.Tensor:
    """Pairs of bytes: (N, blocks, parts, rows, columns, pairs), of the pixels that are read."""
    conv, pairs = geometry.conv, geometry.pairs
    (down, across), (rows, cols) = conv.stride, geometry.copied_extent
    image = conv.out_height, conv.out_width

    def split(n, b, part, y, x, c):
        def channel(at):
            pixel = data(n, b, y * down, x * across, at).astype("int16")
            return inside_or((y, x), (0, 0), image, (rows, cols), pixel, 0)

        def number(value):
            return tirx.const(value, "int16")

        def high(value):
            return tirx.Select(is_large, tirx.Max(value, cut) - cut, number(0))

        first, second = channel(c), channel(c + pairs)
        cut, bits = number(LARGEST_LOW), number(BYTE_BITS)
        is_large = first + second > number(LARGEST_SUM)
        upper = high(first) | (high(second) << bits)
        whole = first | (second << bits)
        return tirx.Select(part == 0, whole - upper, upper).astype("uint16")

    shape = (conv.batch, geometry.in_blocks, PARTS, rows, cols, pairs)
    return te.compute(shape, split, name=SPLIT)


def _any_high(split: te.Tensor, geometry: SplitGeometry) -> te.Tensor:
    """(N, blocks, tiles down, tiles across): whether a tile's pixels have any high part."""
    config = geometry.config
    y, x = (
        te.reduce_axis((0, extent), name=name)
        for extent, name in ((config.reg_m, "yi"), (config.reg_n, "xi"))
    )
    c = te.reduce_axis((0, geometry.pairs), name="pair")

    def largest(n, b, down, across):
        at = down * config.reg_m + y, across * config.reg_n + x, c
        return te.max(split(n, b, 1, *at), axis=[y, x, c])

    shape = (geometry.conv.batch, geometry.in_blocks, *geometry.tiles)
    return te.compute(shape, largest, name=ANY_HIGH)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    conv, config, acc = anchor.workload, anchor.config, anchor.block
    geometry, unit = SplitGeometry(conv, config), cpu.unit(conv.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    chunk, tile, (ico, part, ici) = tile_output(sch, acc, geometry)
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=2)
    prefetch_next_panel(sch, ici)
    pixels, vectors = config.reg_m * config.reg_n, unit.registers_of(config.tile_channels)
    if geometry.inner_steps >= MIN_ROLLED_WORDS:
        keep_rolled(sch, ici, pixels, vectors, unit, geometry.dot(cpu).temporaries)
    skip_part(sch, part)
    steps.hold_tile_in_registers(sch, acc, ico, unit, registers=1)
    _place_split(sch, padded_in(sch, acc, chunk, geometry), cpu)
    return output


def _place_split(sch: Schedule, loop: LoopRV | None, cpu: Cpu) -> None:
    """Both parts at once, of the rows that a pass of the loop reads; then what is in them.

    # for x: for part: for c  ->  for x: low[x, :] = ..; high[x, :] = ..    # vectors of pairs
    """
    any_high, split = (steps.find_block(sch, name) for name in (ANY_HIGH, SPLIT))
    assert any_high is not None and split is not None, "both stages are always computed"
    for block in (any_high, split):
        if loop is not None:
            sch.compute_at(block, loop, preserve_unit_loops=True)
    *outer, block, part, y, x, c = sch.get_loops(split)
    sch.reorder(y, x, part, c)
    sch.unroll(part)
    steps.vectorize_lanes(sch, c, cpu.unit("uint16"))
    if loop is None:
        steps.parallel_fused(sch, *outer, block)
        steps.parallel_fused(sch, *sch.get_loops(any_high)[:2])


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: SplitConfig) -> np.ndarray:
    """The integer template's words, of channels in the order in which split data lie."""
    geometry = SplitGeometry(conv, config)
    pairs = np.arange(geometry.pairs)
    within = np.stack([pairs, pairs + geometry.pairs], axis=1).reshape(-1)
    order = (np.arange(geometry.in_blocks)[:, None] * geometry.ic_bn + within).reshape(-1)
    return integer.pack_weight(weight[:, order], conv, config)


def packed_shape(conv: ConvWorkload, config: SplitConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return SplitGeometry(conv, config).packed_shape
