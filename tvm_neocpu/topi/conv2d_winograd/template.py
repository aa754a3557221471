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

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.cpu import Cpu, VectorUnit
from tvm_neocpu.core.weight_transform import WeightTransform, as_floats
from tvm_neocpu.topi.anchor import Anchor, anchor_attrs
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import phases
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.matrices import Matrix, factored
from tvm_neocpu.topi.conv2d_winograd.tails import Tail
from tvm_neocpu.topi.math.half_precision import as_packed, widened
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import (
    cut_at_borders,
    inline_padding,
    pad_spatial,
    place_padding,
)
from tvm_neocpu.topi.tir.drop_tiles import drop_unneeded
from tvm_neocpu.topi.tir.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch_weights import prefetch_next_panel

PAD, ROWS, PACK = "winograd_pad", "winograd_rows", "winograd_pack"
PRODUCT, COLUMNS, INVERSE, STORE = (
    "winograd_product",
    "winograd_columns",
    "winograd_inverse",
    "winograd_store",
)


def compute(
    data: te.Tensor, weight: te.Tensor, conv: ConvWorkload, config: WinogradConfig
) -> te.Tensor:
    """``data``: (N, C/x, H, W, x), or (N, C, H, W) when ``ic_bn == 0``.

    ``weight``: (K/y, a, b, C/x, x, y) for a x b products a tile. Returns (N, K/y, OH, OW, y).
    """
    geometry = WinogradGeometry(conv, config)
    packed = transform_input(data, geometry)

    def product(tile, filters):
        return packed[tile] * widened(weight(*filters), geometry.factor_type)

    inverse, parts = transformed(product, geometry), geometry.groups_written

    def stored(n, o, y, x, c):
        if parts > 1:  # of a block of several groups
            o, c = o * parts + c // geometry.oc_bn, c % geometry.oc_bn
        return inverse(n, o, y, x, c)

    return te.compute(geometry.out_shape, stored, name=STORE)


def transformed(product: Callable[..., tirx.Expr], geometry: WinogradGeometry) -> te.Tensor:
    """What ``product`` makes of a tile and its filters, summed over channels, and A^T M A of it.

    ``product`` takes two indices: (n, u, v, block, tile row, tile column, step) of the transformed
    input, with one index of the tile where those of a chunk are one axis, and that of the packed
    weight.
    """
    ico = te.reduce_axis((0, geometry.in_blocks), name="ico")
    ici = te.reduce_axis((0, geometry.inner_steps), name="ici")
    groups = geometry.conv.groups

    def term(n, o, u, v, *tile_and_lane):
        *tile, c = tile_and_lane
        of_group = o // (geometry.out_blocks // groups) * geometry.in_blocks
        block = ico if groups == 1 else of_group + ico
        return product((n, u, v, block, *tile, ici), (o, u, v, ico, ici, c))

    sums = te.compute(
        geometry.product_shape,
        lambda *index: te.sum(term(*index), axis=[ico, ici]),
        name=PRODUCT,
        attrs=anchor_attrs(geometry.conv, geometry.config),
    )
    return transform_output(sums, geometry)


def transform_input(
    data: te.Tensor,
    geometry: WinogradGeometry,
    stored: Callable[[tirx.Expr], tirx.Expr] = lambda value: value,
) -> te.Tensor:
    """B^T d B as (N, a, b, C/x, tile rows, tile columns, x), in the type that is multiplied.

    Where the tiles of a chunk are one axis, they are one here. ``stored`` narrows an element.
    """
    conv, grid, hop = geometry.conv, geometry.grid, geometry.tiled.hop
    down, across = geometry.tiled.matrices
    if geometry.tiled.plain:
        padded = phases.split_pixels(data, geometry)
    else:
        extent, parts = geometry.padded_extent, geometry.groups_read
        padded = pad_spatial(data, conv.padding, extent, PAD, conv.pad_value, parts=parts)

    def pixel(n, i, y, x, c):
        value = padded(n, i, y, x, c)
        is_wide = conv.types.data == geometry.factor_type
        return value if is_wide else value.astype(geometry.factor_type)

    # Lanes beyond the channels are transformed, never multiplied.
    blocks, lanes = geometry.packed_blocks, geometry.stored_ic_bn
    rows, columns = (
        (tail, tiles - 1) for tail, tiles in zip(geometry.tails, geometry.tiled.tiles, strict=True)
    )

    def half_tile(n, i, ty, tx, u, x, c):
        def row(y):
            return pixel(n, i, ty * hop[0] + y, tx * hop[1] + x, c)

        return _combine(down.b, u, _continued(row, *rows, ty))

    half = te.compute(
        (conv.batch, blocks, *grid, down.products, across.pixels, lanes), half_tile, name=ROWS
    )

    def element(n, u, v, i, *tile_and_lane):
        *tile, c = tile_and_lane
        ty, tx = (tile[0] // grid[1], tile[0] % grid[1]) if geometry.is_flat else tile

        def column(x):
            return half(n, i, ty, tx, u, x, c)

        return stored(_combine(across.b, v, _continued(column, *columns, tx)))

    tiles = geometry.axes_of_tiles
    shape = (conv.batch, down.products, across.products, blocks, *tiles, lanes)
    return te.compute(shape, element, name=PACK)


def _continued(
    given: Callable[[int], tirx.Expr], tail: Tail | None, last: int, tile: tirx.Expr
) -> Callable[[int], tirx.Expr]:
    """A tile's pixels: in tile ``last`` those beyond what is given follow from those before."""
    if tail is None or not tail.recurrence:
        return given

    def followed(at: int) -> tirx.Expr:
        if at < tail.given:
            return given(at)
        return _dot(tail.recurrence, lambda index: followed(at - len(tail.recurrence) + index))

    # TVM would take the test as known while it simplifies either side, and drop the test of the
    # padding there. A select reads both sides for every tile. It knows nothing of an exclusive or.
    is_last = tirx.bitwise_xor(tile, tirx.const(last, tile.ty.dtype)) == 0

    def pixel(at: int) -> tirx.Expr:
        if at < tail.given:
            return given(at)
        return tirx.Select(is_last, followed(at), given(at))

    return pixel


def transform_output(product: te.Tensor, geometry: WinogradGeometry) -> te.Tensor:
    """A^T M A as (N, K/y, rows, columns, y) of all tiles, which may overhang the output."""
    conv, grid, oc_bn = geometry.conv, geometry.grid, geometry.oc_bn
    down, across = geometry.tiled.matrices

    def column(n, o, ty, tx, y, v, c):
        tile = (ty * grid[1] + tx,) if geometry.is_flat else (ty, tx)
        return _combine(down.a, y, lambda u: product(n, o, u, v, *tile, c))

    columns = te.compute(
        (conv.batch, geometry.out_blocks, *grid, down.outputs, across.products, oc_bn),
        column,
        name=COLUMNS,
    )
    high, wide = down.outputs, across.outputs
    return te.compute(
        (conv.batch, geometry.out_blocks, grid[0] * high, grid[1] * wide, oc_bn),
        lambda n, o, y, x, c: _combine(
            across.a, x % wide, lambda v: columns(n, o, y // high, x // wide, y % high, v, c)
        ),
        name=INVERSE,
    )


def _combine(matrix: Matrix, row: tirx.Var, term: Callable[[int], tirx.Expr]) -> tirx.Expr:
    """Row ``row`` of a constant matrix times a vector of terms, once ``row`` is a constant.

    The selection vanishes when the loop over ``row`` is unrolled. What rows share LLVM computes
    once.
    """
    outer, inner = factored(matrix)

    def shared(index: int) -> tirx.Expr:
        return _dot(inner[index], term)

    rows = [_dot(coefficients, shared) for coefficients in outer]
    chosen = rows[-1]
    for index in range(len(rows) - 2, -1, -1):
        chosen = tirx.if_then_else(row == index, rows[index], chosen)
    return chosen


def _dot(coefficients: tuple[Fraction, ...], term: Callable[[int], tirx.Expr]) -> tirx.Expr:
    total = None
    for index, factor in enumerate(coefficients):
        if factor == 0:
            continue
        value = term(index)
        number = float(factor) if factor.denominator > 1 else int(factor)
        scaled = value if factor == 1 else value * tirx.const(number, str(value.ty.dtype))
        total = scaled if total is None else total + scaled
    assert total is not None
    return total


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = WinogradGeometry(anchor.workload, anchor.config)
    return schedule_parts(sch, anchor, cpu, geometry)


def schedule_parts(sch: Schedule, anchor: Anchor, cpu: Cpu, geometry: WinogradGeometry) -> SBlockRV:
    """The same of any geometry like this one's.

    # parallel chunk of tile rows: pad; pack all channels; for o: product; inverse, epilogue
    # of groups: parallel chunk: for o: pad, pack its group's channels; product; inverse, epilogue
    """
    unit = cpu.unit(anchor.workload.types.accumulator)
    output = steps.inline_epilogue(sch, sch.get_sblock(STORE))
    inverse = sch.get_sblock(INVERSE)
    chunk, per_block, vector = tile_inverse(sch, inverse, geometry, unit)
    sch.reverse_compute_at(output, vector, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=2)
    sch.set_scope(inverse, 0, steps.LOCAL)
    expand_transform(sch, sch.get_sblock(COLUMNS), vector, unit)
    block_product(sch, anchor.block, per_block, geometry, cpu)
    pack_input(sch, per_block if geometry.packs_by_block else chunk, geometry, cpu)
    return output


def tile_inverse(
    sch: Schedule, inverse: SBlockRV, geometry: WinogradGeometry, unit: VectorUnit
) -> tuple[LoopRV, LoopRV, LoopRV]:
    """Returns the parallel loop, the loop over output blocks, the loop over one tile's vectors.

    # for n, o, y, x, c  ->  parallel n_yb: for o: for ty, tx, cv: (yi, xi unrolled): cl
    """
    config, (rows, columns) = geometry.config, geometry.tiled.outputs
    n, o, y, x, c = sch.get_loops(inverse)
    ty, yi = steps.split_off(sch, y, rows)
    tx, xi = steps.split_off(sch, x, columns)
    yb, ty = steps.split_off(sch, ty, geometry.chunk_rows)
    cv, cl = steps.split_off(sch, c, _lanes(geometry.oc_bn, unit))
    sch.reorder(n, *((o, yb) if config.parallel_oc else (yb, o)), ty, tx, cv, yi, xi, cl)
    steps.unroll_all(sch, yi, xi)
    steps.vectorize_lanes(sch, cl, unit)
    if config.parallel_oc:
        chunk = steps.parallel_fused(sch, n, o)
        return chunk, yb, cv
    return steps.parallel_fused(sch, n, yb), o, cv


def expand_transform(sch: Schedule, block: SBlockRV, at: LoopRV, unit: VectorUnit) -> None:
    """Compute one tile's transform at ``at``, both matrix indices unrolled, lanes vectorised.

    All sums over one vector of the tile follow each other: they share terms.
    """
    sch.compute_at(block, at, preserve_unit_loops=True)
    sch.set_scope(block, 0, steps.LOCAL)
    *_, summed, kept, _ = sch.get_loops(block)
    sch.reorder(kept, summed)
    steps.unroll_and_vectorize(sch, block, unit, pixels=2)


def block_product(
    sch: Schedule,
    product: SBlockRV,
    per_block: LoopRV,
    geometry: WinogradGeometry,
    cpu: Cpu,
) -> None:
    """# for u, v: for ty, tx: (acc = 0; for ico, ici: tile of reg_m x reg_n x oc_bn).

    Of one axis of tiles: a narrower register tile at the end becomes a loop nest of its own.
    """
    unit, by = cpu.unit(geometry.conv.types.accumulator), geometry.dot(cpu)
    temporaries = 0 if by is None else by.temporaries
    sch.compute_at(product, per_block, preserve_unit_loops=True)
    *loops, c, ico, ici = sch.get_loops(product)
    sizes: tuple[int, ...] = (geometry.config.reg_n,)
    if not geometry.is_flat:
        sizes = geometry.register_rows, *sizes
    split = [
        steps.split_off(sch, loop, size)
        for loop, size in zip(loops[-len(sizes) :], sizes, strict=True)
    ]
    outer, inner = [pair[0] for pair in split], [pair[1] for pair in split]
    sch.reorder(*outer, ico, ici, *inner, c)
    if geometry.ends_narrower:
        cut_at_borders(sch, outer[-1])
    write = sch.cache_write(product, 0, steps.LOCAL)
    steps.spread_over_sets(sch, write, 3, unit)
    sch.reverse_compute_at(write, outer[-1], preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, write, unit, pixels=len(inner))
    steps.unroll_all(sch, *inner)
    steps.vectorize_lanes(sch, c, unit)
    prefetch_next_panel(sch, ici, geometry.panels_ahead)
    pixels = geometry.register_rows * geometry.config.reg_n
    keep_rolled(sch, ici, pixels, unit.registers_of(geometry.oc_bn), unit, temporaries)
    zero = sch.decompose_reduction(product, ico)
    steps.unroll_and_vectorize(sch, zero, unit, pixels=len(inner))
    if geometry.drops_tiles:
        u, v = loops[-4:-2]
        drop_unneeded(sch, (u, v), geometry.needed_tiles, ico, (inner[0], inner[1]))


def pack_input(sch: Schedule, chunk: LoopRV, geometry: WinogradGeometry, cpu: Cpu) -> None:
    """Transform the tiles a chunk reads (all tiles, in parallel, where chunks split channels).

    Of groups: those that a block of output channels reads, whatever chunks split.

    # for i, ty, tx, cv: half = B^T d; packed[u, v, i, ty, tx] = (half B)[u, v]

    An image that outgrows L2 is padded in a copy, chunk by chunk: the copy is read in order, tiles
    are not (Zen 5, 1 MiB of L2: 64x224x224 5.8 ms, without the copy 7.0; 64x56x56 319 us, without
    it 306).
    """
    conv, apart = geometry.conv, geometry.packs_apart
    unit, data_unit = cpu.unit(geometry.factor_type), cpu.unit(conv.types.data)
    pack = sch.get_sblock(PACK)
    if not apart:
        sch.compute_at(pack, chunk, preserve_unit_loops=True)
    *outer, u, v, i, ty, tx, c = _loops_by_row(sch, pack, geometry)
    steps.spread_over_sets(sch, pack, 2, cpu.unit(geometry.packed_type))
    cv, cl = steps.split_off(sch, c, _lanes(geometry.transformed_channels, unit))
    sch.reorder(i, ty, tx, cv, u, v, cl)
    if apart:
        steps.parallel_fused(sch, *outer, i, ty)
    if not geometry.packs_by_block and (apart or conv.in_bytes <= cpu.l2):
        inline_padding(sch, PAD)
    steps.unroll_all(sch, u, v)
    steps.vectorize_lanes(sch, cl, unit)
    expand_transform(sch, sch.get_sblock(ROWS), cv, unit)
    reader = None if apart else chunk
    if geometry.tiled.plain:
        phases.place_phases(sch, reader, conv, data_unit)
    else:
        place_padding(sch, PAD, reader, data_unit)


def _loops_by_row(sch: Schedule, pack: SBlockRV, geometry: WinogradGeometry) -> list[LoopRV]:
    """The loops of the transformed input; one over all tiles of a chunk becomes rows of columns."""
    *outside, tiles, lanes = sch.get_loops(pack)
    if not geometry.is_flat:
        return [*outside, tiles, lanes]
    return [*outside, *steps.split_off(sch, tiles, geometry.grid[1]), lanes]


def pack_weight(weight: np.ndarray, conv: ConvWorkload, config: WinogradConfig) -> np.ndarray:
    """(K, C, KH, KW) -> G g G^T as (K/y, a, b, C/x, x, y), computed in double precision."""
    geometry = WinogradGeometry(conv, config)
    taps = phases.split_taps(weight, conv) if geometry.tiled.plain else weight
    down, across = (as_floats(matrices.g) for matrices in geometry.tiled.matrices)
    out_blocks, a, b, in_blocks, ic_bn, oc_bn = geometry.packed_shape
    blocks = (a, b, out_blocks, oc_bn, in_blocks, ic_bn)
    kind = str(weight.dtype)
    transform = WeightTransform(down, across, kind, blocks, (2, 0, 1, 4, 5, 3), kind)
    return as_packed(transform.packed(taps.reshape(-1, transform.taps)))


def packed_shape(conv: ConvWorkload, config: WinogradConfig) -> tuple[int, ...]:
    """The shape that :func:`pack_weight` returns."""
    return WinogradGeometry(conv, config).packed_shape


def _lanes(block: int, unit: VectorUnit) -> int:
    """The widest power of two that divides a block, up to one register."""
    return min(block & -block, unit.lanes)
