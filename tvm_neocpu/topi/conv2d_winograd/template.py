"""Winograd's template: a chunk of tiles is packed, multiplied and transformed back.

:mod:`.definition` has the transforms, and says what the algorithm is.
"""

from __future__ import annotations

from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu, VectorUnit
from tvm_neocpu.topi.anchor import Anchor
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd import phases
from tvm_neocpu.topi.conv2d_winograd.definition import (
    COLUMNS,
    INVERSE,
    PACK,
    PAD,
    ROWS,
    STORE,
    transform_input,
    transformed,
)
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.math.half_precision import widened
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule.pad import finds_images_in, inline_padding, place_padding
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop
from tvm_neocpu.topi.tir.functions.keep_rolled import keep_rolled
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import prefetch_next_panel
from tvm_neocpu.topi.tir.tiles.drop_tiles import drop_unneeded


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


def schedule(sch: Schedule, anchor: Anchor, cpu: Cpu) -> SBlockRV:
    """Schedule a function in which :func:`compute` and its epilogue were fused."""
    geometry = WinogradGeometry(anchor.workload, anchor.config)
    return schedule_parts(sch, anchor, cpu, geometry)


def schedule_parts(sch: Schedule, anchor: Anchor, cpu: Cpu, geometry: WinogradGeometry) -> SBlockRV:
    """The same of any geometry like this one's.

    # parallel chunk of tile rows: pad; pack all channels; for o: product; inverse, epilogue
    # oc_chunks: parallel chunk of o: pack all channels; for its o: product; inverse, epilogue
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
    """Returns a chunk's loop, the loop over output blocks, the loop over one tile's vectors.

    # for n, o, y, x, c  ->  parallel n_yb: for o: for ty, tx, cv: (yi, xi unrolled): cl
    # oc_chunks: parallel n_oc: for yb: for o: for ty, tx, cv: (yi, xi unrolled): cl

    A chunk of several images has a loop over them outside of that over their rows.
    """
    config, (rows, columns) = geometry.config, geometry.tiled.outputs
    n, o, y, x, c = sch.get_loops(inverse)
    ty, yi = steps.split_off(sch, y, rows)
    tx, xi = steps.split_off(sch, x, columns)
    yb, ty = steps.split_off(sch, ty, geometry.chunk_rows)
    cv, cl = steps.split_off(sch, c, _lanes(geometry.oc_bn, unit))
    together = geometry.images
    n, *images = steps.split_off(sch, n, together) if together > 1 else (n,)
    chunks = [n]
    if config.oc_chunks:
        oc, o = steps.split_off(sch, o, geometry.out_blocks // config.oc_chunks)
        chunks.append(oc)
    split = (o, yb) if config.parallel_oc else (yb, o)
    sch.reorder(*chunks, *split, *images, ty, tx, cv, yi, xi, cl)
    steps.unroll_all(sch, yi, xi)
    steps.vectorize_lanes(sch, cl, unit)
    if config.oc_chunks:
        steps.parallel_fused(sch, *chunks)
        return yb, o, cv
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
        cut_loop(sch, outer[-1])
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
    it 306). Of a volume's images each would be copied once for each tap (Emerald Rapids, R3D-18's
    layers of 64 and 128 channels: without the copies 1.03 to 1.17).
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
    copied = conv.in_bytes > cpu.l2 and not finds_images_in(sch, PAD)
    if not geometry.packs_by_block and (apart or not copied):
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


def _lanes(block: int, unit: VectorUnit) -> int:
    """The widest power of two that divides a block, up to one register."""
    return min(block & -block, unit.lanes)
