"""Deformable convolution as a matrix product over looked-up pixels, in NCHW[x]c.

The pixels of the whole batch are one axis, cut into register tiles and chunks as im2col cuts them.
A chunk computes *places* first: for every tap, offset group and pixel the four pixels around the
moved tap, and what each weighs, the mask included. Offsets and mask are plain NCHW, so that places
are vectors over pixels. Then it fills its *columns*: a vector of channels is interpolated from four
loads, with shares that all channels of an offset group have in common. The product reads columns as
im2col's does.

    parallel for chunk of pixels:
        for g, kh, kw: for f in lanes: (index, share)[0:2, 0:2, g, kh, kw, f]
        for f, g, kh, kw, block: for ici in lanes: columns[block, kh, kw, f, ici] = 4 share * pixel
        for o, tile: for block, kh, kw, ici: tile of f, c += column * weight
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.ir import Expr
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d_im2col import template as im2col
from tvm_neocpu.topi.deform_conv2d import places
from tvm_neocpu.topi.deform_conv2d.geometry import DeformConfig, DeformGeometry
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.functions.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel

PLACE = ("deform_row", "deform_col")
INDEX, SHARE, COLUMNS = "deform_index", "deform_share", "deform_columns"
PRODUCT, STORE = "deform_product", "deform_store"

Places = tuple[te.Tensor, te.Tensor]


def compute(data: te.Tensor, weight: te.Tensor, offset: te.Tensor, *rest: Any) -> te.Tensor:
    """``rest``: the mask if the workload has one, the workload, the config.

    ``data``: (N, C/ic_bn, H, W, ic_bn). ``weight``: (K/oc_bn, C/groups/ic_bn * R * S, ic_bn,
    tile_channels) of :func:`pack_weight`. ``offset`` and mask: plain NCHW, as the workload says.
    Returns (N, K/oc_bn, OH, OW, oc_bn).
    """
    *mask, deform, config = rest
    geometry = DeformGeometry(deform, config)
    conv, product = deform.conv, geometry.product
    columns = _columns(data, *_places(offset, mask[0] if mask else None, geometry), geometry)
    in_blocks, out_blocks = geometry.groups_blocks
    spots = conv.kernel[0] * conv.kernel[1]

    def column(o, tap, f, ici):
        block, spot = o // out_blocks * in_blocks + tap // spots, tap % spots
        return columns[block, spot // conv.kernel[1], spot % conv.kernel[1], f, ici]

    tap = te.reduce_axis((0, product.packed_shape[1]), name="tap")
    ici = te.reduce_axis((0, config.ic_bn), name="ici")
    wide = conv.types.accumulator
    acc = te.compute(
        (product.out_blocks, product.computed_pixels, config.tile_channels),
        lambda o, f, c: te.sum(
            column(o, tap, f, ici).astype(wide) * weight[o, tap, ici, c].astype(wide),
            axis=[tap, ici],
        ),
        name=PRODUCT,
        attrs=anchor_attrs(deform, config),
    )
    height, width = conv.out_height, conv.out_width
    return te.compute(
        (conv.batch, product.out_blocks, height, width, config.oc_bn),
        lambda n, o, y, x, c: acc[o, (n * height + y) * width + x, c].astype(conv.types.output),
        name=STORE,
    )


def _places(offset: te.Tensor, mask: te.Tensor | None, geometry: DeformGeometry) -> Places:
    """(index, share), both (2, 2, G, R, S, pixels): down, right, offset group, tap, output pixel.

    An index counts the pixels of an image. Output pixels that overhang the batch repeat its last.
    """
    deform, product = geometry.deform, geometry.product
    (rows, cols), image = deform.kernel, (deform.height, deform.width)
    out_height, out_width = deform.conv.out_height, deform.conv.out_width

    def output_pixel(f):
        f = tirx.min(f, product.pixels - 1) if product.overhangs else f
        return f // (out_height * out_width), f // out_width % out_height, f % out_width

    def moved(axis: int, g, kh, kw, f):
        n, *at = output_pixel(f)
        tap = (kh, kw)[axis] * deform.dilation[axis] - deform.padding[axis]
        unmoved = (at[axis] * deform.stride[axis] + tap).astype(offset.dtype)
        move = offset(n, ((g * rows + kh) * cols + kw) * 2 + axis, *at)
        return places.clamped(unmoved + move, image[axis])

    def index(down, right, *tap):
        row = places.pixel(place[0](*tap), image[0], down)
        return row * image[1] + places.pixel(place[1](*tap), image[1], right)

    def share(down, right, g, kh, kw, f):
        vertical = places.share(place[0](g, kh, kw, f), image[0], down)
        both = vertical * places.share(place[1](g, kh, kw, f), image[1], right)
        if mask is None:
            return both
        n, *at = output_pixel(f)
        return both * mask(n, (g * rows + kh) * cols + kw, *at)

    taps = (deform.offset_groups, rows, cols, product.computed_pixels)
    place = [te.compute(taps, partial(moved, axis), name=PLACE[axis]) for axis in (0, 1)]
    shape = (2, 2, *taps)
    return te.compute(shape, index, name=INDEX), te.compute(shape, share, name=SHARE)


def _columns(
    data: te.Tensor, index: te.Tensor, share: te.Tensor, geometry: DeformGeometry
) -> te.Tensor:
    """(C/ic_bn, R, S, pixels, ic_bn), interpolated."""
    deform, product = geometry.deform, geometry.product
    image = deform.conv.out_height * deform.conv.out_width

    def interpolated(block, kh, kw, f, ici):
        n = tirx.min(f // image, deform.batch - 1) if deform.batch > 1 else 0
        g = block // geometry.blocks_of_place

        def pixel(down: int, right: int) -> Expr:
            at = index[down, right, g, kh, kw, f]
            value = data[n, block, at // deform.width, at % deform.width, ici]
            return value * share[down, right, g, kh, kw, f]

        return pixel(0, 0) + pixel(0, 1) + pixel(1, 0) + pixel(1, 1)

    shape = (geometry.in_blocks, *deform.kernel, product.computed_pixels, geometry.config.ic_bn)
    return te.compute(shape, interpolated, name=COLUMNS)


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused.

    # parallel chunk of pixels: places; columns; for o, tile: (tile = 0; for tap, ici: ..; store)
    """
    deform, config, product = anchor.workload, anchor.config, anchor.block
    unit = cpu.unit(deform.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    im2col.flatten_pixels(sch, output, deform.conv)
    chunk, tile, reduction = im2col.tile_pixels(
        sch, product, DeformGeometry(deform, config).product
    )
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=1)
    prefetch_next_panel(sch, reduction[-1])
    keep_rolled(sch, reduction[-1], config.reg_n, unit.registers_of(config.oc_bn), unit)
    steps.hold_tile_in_registers(sch, product, reduction[0], unit)
    place_columns(sch, chunk, DeformGeometry(deform, config), cpu.unit(deform.types.data))
    return output


def place_columns(sch: Schedule, chunk: LoopRV, geometry: DeformGeometry, unit: VectorUnit) -> None:
    """Look up a chunk's places and interpolate its columns just before its product.

    Where chunks split output channels too, all columns are filled before, in chunks of pixels.

    # for block, kh, kw, f, ici  ->  for f, g, kh, kw: for block, vectors of ici
    """
    columns = sch.get_sblock(COLUMNS)
    if geometry.config.parallel_oc:
        *_, f, _ = sch.get_loops(columns)
        chunk, _ = steps.split_off(sch, f, geometry.product.chunk_pixels)
        sch.reorder(chunk, *sch.get_loops(columns)[:3])
        chunk = steps.parallel_fused(sch, chunk)
    else:
        sch.compute_at(columns, chunk, preserve_unit_loops=True)
    *_, block, kh, kw, f, ici = sch.get_loops(columns)
    group, block = steps.split_off(sch, block, geometry.blocks_of_place)
    sch.reorder(f, group, kh, kw, block)
    steps.vectorize_lanes(sch, ici, unit)
    # A pixel's taps are written in turn. Those of 224 pixels would share one set of the cache
    # (Zen 5: 128x28x28 1526 -> 1361 us, 64x56x56 1523 -> 1422).
    steps.spread_over_sets(sch, columns, 2, unit)
    for name in (INDEX, SHARE, *PLACE):
        place_lookups(sch, sch.get_sblock(name), chunk, unit)


def place_lookups(sch: Schedule, table: SBlockRV, chunk: LoopRV, unit: VectorUnit) -> None:
    """# for down, right, g, kh, kw, f  ->  for g, kh, kw: (down, right unrolled): vectors of f."""
    sch.compute_at(table, chunk, preserve_unit_loops=True)
    *_, g, kh, kw, f = loops = sch.get_loops(table)[-len(steps.output_shape(sch, table)) :]
    pixels = loops[:-4]
    sch.reorder(g, kh, kw, *pixels, f)
    steps.unroll_all(sch, *pixels)
    steps.vectorize_lanes(sch, f, unit)


def pack_weight(weight: np.ndarray, deform: DeformConvWorkload, config: DeformConfig) -> np.ndarray:
    """(K, C/groups, R, S) -> (K/oc_bn, C/groups/ic_bn * R * S, ic_bn, tile_channels), contiguous.

    Channels that only fill a vector are zero.
    """
    return im2col.pack_weight(weight, DeformGeometry(deform, config).product.conv, config)


def packed_shape(deform: DeformConvWorkload, config: DeformConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return DeformGeometry(deform, config).product.packed_shape
