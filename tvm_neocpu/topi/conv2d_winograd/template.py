"""Winograd convolution in NCHW[x]c with the fused scatter-pack (Wang et al. 2020).

F(m x m, r x r), for 1xN and Nx1 kernels F(1 x m, 1 x r) in one dimension; a stride is several
phases side by side (:mod:`.matrices`). A first convolution reads plain NCHW and has its phases made
channels instead (:mod:`.phases`).

Four fused parts: the kernel transform happens at compile time; input tiles are transformed a vector
of channels at a time and written once, straight into the order in which the product reads them;
the products are blocked like the direct template; the inverse transform writes the output with
the epilogue. Every transform is a constant-matrix product written out, zeros and ones for free.

Largest error over the largest output, unit-variance data, 512 input channels: F(2x2, 3x3) 2e-6 (as
the direct template), F(3x3, 3x3) 1e-5, F(4x4, 3x3) 2e-5, F(6x6, 3x3) 1e-4, F(1x2, 1x7) 1e-5,
F(1x3, 1x7) 4e-5, F(2x2, 5x5) 2e-5; with stride 2 the 3x3 ones lose less. 2e-5 also for
F(4x4, 4x4) over 12 phases.
A test holds these bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.config import WinogradConfig
from tvm_neocpu.core.layout import largest_factor
from tvm_neocpu.core.workload import ConvWorkload
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d_winograd import phases as stride_phases
from tvm_neocpu.topi.conv2d_winograd.matrices import Matrix, conv_matrices
from tvm_neocpu.topi.conv2d_winograd.space import tile_grid
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import melt_padding, pad_spatial, place_padding
from tvm_neocpu.topi.tir.prefetch_weights import prefetch_next_panel

PAD, ROWS, PACK = "winograd_pad", "winograd_rows", "winograd_pack"
PRODUCT, COLUMNS, INVERSE, STORE = (
    "winograd_product",
    "winograd_columns",
    "winograd_inverse",
    "winograd_store",
)

# A larger image is padded in a copy, chunk by chunk: that reads in order, tiles do not
# (64x224x224: 5.8 ms, without the copy 7.0; 64x56x56: 319 us, without it 306).
MOST_UNCOPIED = 1 << 20


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: WinogradConfig
) -> te.Tensor:
    """``data``: (N, C/x, H, W, x), or (N, C, H, W) when ``ic_bn == 0``.

    ``weight``: (K/y, a, b, C/x, x, y) for a x b products a tile. Returns (N, K/y, OH, OW, y).
    """
    unit = stride_phases.multiplied(conv, config.ic_bn)
    grid = tile_grid(conv, config)
    down, across = conv_matrices(unit, config.tile)
    alpha = (down.products, across.products)
    # Rows and columns from one tile to the next.
    hop = (down.outputs * unit.stride[0], across.outputs * unit.stride[1])
    reach = (
        (grid[0] - 1) * hop[0] + down.pixels,
        (grid[1] - 1) * hop[1] + across.pixels,
    )
    padded = (
        pad_spatial(data, conv.padding, reach, PAD)
        if config.ic_bn
        else stride_phases.split_pixels(data, conv, reach)
    )
    # Lanes beyond the channels are transformed, never multiplied.
    in_blocks, lanes = int(padded.shape[1]), int(padded.shape[4])
    out_blocks = conv.out_channels // config.oc_bn
    half = te.compute(
        (conv.batch, in_blocks, *grid, alpha[0], across.pixels, lanes),
        lambda n, i, ty, tx, u, x, c: _combine(
            down.b, u, lambda y: padded[n, i, ty * hop[0] + y, tx * hop[1] + x, c]
        ),
        name=ROWS,
    )
    packed = te.compute(
        (conv.batch, *alpha, in_blocks, *grid, lanes),
        lambda n, u, v, i, ty, tx, c: _combine(across.b, v, lambda x: half[n, i, ty, tx, u, x, c]),
        name=PACK,
    )
    ico = te.reduce_axis((0, in_blocks), name="ico")
    ici = te.reduce_axis((0, unit.in_channels // in_blocks), name="ici")
    product = te.compute(
        (conv.batch, out_blocks, *alpha, *grid, config.oc_bn),
        lambda n, o, u, v, ty, tx, c: te.sum(
            packed[n, u, v, ico, ty, tx, ici] * weight[o, u, v, ico, ici, c], axis=[ico, ici]
        ),
        name=PRODUCT,
        attrs=anchor_attrs(conv, config),
    )
    columns = te.compute(
        (conv.batch, out_blocks, *grid, down.outputs, alpha[1], config.oc_bn),
        lambda n, o, ty, tx, y, v, c: _combine(down.a, y, lambda u: product[n, o, u, v, ty, tx, c]),
        name=COLUMNS,
    )
    high, wide = down.outputs, across.outputs
    inverse = te.compute(
        (conv.batch, out_blocks, grid[0] * high, grid[1] * wide, config.oc_bn),
        lambda n, o, y, x, c: _combine(
            across.a, x % wide, lambda v: columns[n, o, y // high, x // wide, y % high, v, c]
        ),
        name=INVERSE,
    )
    out_shape = (conv.batch, out_blocks, conv.out_height, conv.out_width, config.oc_bn)
    return te.compute(out_shape, lambda *index: inverse(*index), name=STORE)


def _combine(matrix: Matrix, row: tirx.Var, term: Callable[[int], tirx.Expr]) -> tirx.Expr:
    """Row ``row`` of a constant matrix times a vector of terms, once ``row`` is a constant.

    The selection vanishes when the loop over ``row`` is unrolled.
    """
    rows = [_dot(coefficients, term) for coefficients in matrix]
    chosen = rows[-1]
    for index in range(len(rows) - 2, -1, -1):
        chosen = tirx.if_then_else(row == index, rows[index], chosen)
    return chosen


def _dot(coefficients: tuple[Fraction, ...], term: Callable[[int], tirx.Expr]) -> tirx.Expr:
    total = None
    for index, factor in enumerate(coefficients):
        if factor == 0:
            continue
        scaled = term(index) if factor == 1 else term(index) * tirx.const(float(factor), "float32")
        total = scaled if total is None else total + scaled
    assert total is not None
    return total


def schedule(sch: Schedule, anchor: Anchor) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused.

    # parallel chunk of tile rows: pad; pack all channels; for o: product; inverse, epilogue
    """
    config = anchor.config
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    inverse = sch.get_sblock(INVERSE)
    unit = stride_phases.multiplied(anchor.workload, config.ic_bn)
    chunk, per_block, vector = tile_inverse(sch, inverse, unit, config)
    sch.reverse_compute_at(output, vector, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, pixels=2)
    sch.set_scope(inverse, 0, steps.LOCAL)
    expand_transform(sch, sch.get_sblock(COLUMNS), vector)
    block_product(sch, anchor.block, per_block, config)
    pack_input(sch, chunk, anchor.workload, config)
    return output


def tile_inverse(
    sch: Schedule, inverse: SBlockRV, conv: ConvWorkload, config: WinogradConfig
) -> tuple[LoopRV, LoopRV, LoopRV]:
    """Returns the parallel loop, the loop over output blocks, the loop over one tile's vectors.

    # for n, o, y, x, c  ->  parallel n_yb: for o: for ty, tx, cv: (yi, xi unrolled): cl
    """
    n, o, y, x, c = sch.get_loops(inverse)
    down, across = conv_matrices(conv, config.tile)
    ty, yi = steps.split_off(sch, y, down.outputs)
    tx, xi = steps.split_off(sch, x, across.outputs)
    extent = steps.loop_extent(sch, ty)
    yb, ty = steps.split_off(sch, ty, largest_factor(extent, config.th_bn))
    cv, cl = steps.split_off(sch, c, _lanes(config.oc_bn))
    sch.reorder(n, *((o, yb) if config.parallel_oc else (yb, o)), ty, tx, cv, yi, xi, cl)
    steps.unroll_all(sch, yi, xi)
    steps.vectorize_lanes(sch, cl)
    if config.parallel_oc:
        chunk = steps.parallel_fused(sch, n, o)
        return chunk, yb, cv
    return steps.parallel_fused(sch, n, yb), o, cv


def expand_transform(sch: Schedule, block: SBlockRV, at: LoopRV) -> None:
    """Compute one tile's transform at ``at``, both matrix indices unrolled, lanes vectorised."""
    sch.compute_at(block, at, preserve_unit_loops=True)
    sch.set_scope(block, 0, steps.LOCAL)
    steps.unroll_and_vectorize(sch, block, pixels=2)


def block_product(
    sch: Schedule, product: SBlockRV, per_block: LoopRV, config: WinogradConfig
) -> None:
    """# for u, v: for ty, tx: (acc = 0; for ico, ici: tile of reg_m x reg_n x oc_bn)."""
    sch.compute_at(product, per_block, preserve_unit_loops=True)
    *_, u, v, ty, tx, c, ico, ici = sch.get_loops(product)
    reg_m = largest_factor(steps.loop_extent(sch, ty), config.reg_m)
    ty, tyi = steps.split_off(sch, ty, reg_m)
    tx, txi = steps.split_off(sch, tx, largest_factor(steps.loop_extent(sch, tx), config.reg_n))
    sch.reorder(u, v, ty, tx, ico, ici, tyi, txi, c)
    write = sch.cache_write(product, 0, steps.LOCAL)
    steps.spread_over_sets(sch, write, axis=3)
    sch.reverse_compute_at(write, tx, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, write, pixels=2)
    steps.unroll_all(sch, tyi, txi)
    steps.vectorize_lanes(sch, c)
    prefetch_next_panel(sch, ici)
    zero = sch.decompose_reduction(product, ico)
    steps.unroll_and_vectorize(sch, zero, pixels=2)


def pack_input(sch: Schedule, chunk: LoopRV, conv: ConvWorkload, config: WinogradConfig) -> None:
    """Transform the tiles a chunk reads (all tiles, in parallel, where chunks split channels).

    # for i, ty, tx, cv: half = B^T d; packed[u, v, i, ty, tx] = (half B)[u, v]
    """
    pack = sch.get_sblock(PACK)
    if not config.parallel_oc:
        sch.compute_at(pack, chunk, preserve_unit_loops=True)
    *outer, u, v, i, ty, tx, c = sch.get_loops(pack)
    steps.spread_over_sets(sch, pack, axis=2)
    cv, cl = steps.split_off(sch, c, _lanes(steps.loop_extent(sch, c)))
    sch.reorder(i, ty, tx, cv, u, v, cl)
    if config.parallel_oc:
        steps.parallel_fused(sch, *outer, i, ty)
    if config.parallel_oc or _bytes(conv) <= MOST_UNCOPIED:
        melt_padding(sch, PAD)
    steps.unroll_all(sch, u, v)
    steps.vectorize_lanes(sch, cl)
    expand_transform(sch, sch.get_sblock(ROWS), cv)
    reader = None if config.parallel_oc else chunk
    if config.ic_bn:
        place_padding(sch, PAD, reader)
    else:
        stride_phases.place_phases(sch, reader, conv)


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: WinogradConfig) -> np.ndarray:
    """(K, C, KH, KW) -> G g G^T as (K/y, a, b, C/x, x, y), computed in double precision."""
    unit = stride_phases.multiplied(conv, config.ic_bn)
    down, across = (np.array(m.g, dtype=np.float64) for m in conv_matrices(unit, config.tile))
    taps = weight.astype(np.float64)
    if config.ic_bn == 0:
        taps = stride_phases.split_taps(taps, conv)
    transformed = np.einsum("ur,kcrs,vs->uvkc", down, taps, across, optimize=True)
    out_blocks, a, b, in_blocks, ic_bn, oc_bn = packed_shape(conv, config)
    blocked = transformed.astype(np.float32).reshape(a, b, out_blocks, oc_bn, in_blocks, ic_bn)
    return np.ascontiguousarray(blocked.transpose(2, 0, 1, 4, 5, 3))


def packed_shape(conv: ConvWorkload, config: WinogradConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    unit = stride_phases.multiplied(conv, config.ic_bn)
    ic_bn = config.ic_bn or unit.in_channels
    products = (m.products for m in conv_matrices(unit, config.tile))
    out_blocks, in_blocks = conv.out_channels // config.oc_bn, unit.in_channels // ic_bn
    return (out_blocks, *products, in_blocks, ic_bn, config.oc_bn)


def _bytes(conv: ConvWorkload) -> int:
    return math.prod(conv.in_shape) * steps.FLOAT_BYTES


def _lanes(block: int) -> int:
    """The widest power of two that divides a block, up to 16: one vector on AVX-512."""
    return min(block & -block, 16)
