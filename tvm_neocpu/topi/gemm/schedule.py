"""The loops of a matrix product in register tiles: what templates over it share.

# parallel q: for o, t: (tile = 0; for k: tile[i, c] += rows[t, i, k] * panel[o, k, c]; store)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import VectorUnit
from tvm_neocpu.topi.gemm.tiles import Tiles
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.functions.cut_loops import cut_loop


def flat_index(index: Sequence[tirx.Expr], shape: Sequence[int]) -> tirx.Expr | int:
    """The position of an element of a tensor of that shape, in order; 0 in a scalar."""
    position: tirx.Expr | int = 0
    for at, extent in zip(index, shape, strict=True):
        position = position * extent + at
    return position


def unflat_index(position: tirx.Expr, shape: Sequence[int]) -> tuple[tirx.Expr, ...]:
    """The inverse of :func:`flat_index`."""
    index = []
    for axis, extent in enumerate(shape):
        inside = prod(shape[axis + 1 :])
        place = position // inside
        index.append(place % extent if axis else place)
    return tuple(index)


def rows_as_stored(
    acc: te.Tensor,
    outside: Sequence[int],
    columns: int,
    dtype: str,
    name: str,
    correction: Callable[..., tirx.Expr] | None = None,
) -> te.Tensor:
    """``acc`` (rows, blocks, oc_bn) as (*outside, columns): what a template stores.

    Rows and columns behind those of the result are dropped. ``correction`` of (block, lane) is
    added.
    """
    oc_bn = int(acc.shape[-1])

    def stored(*at: tirx.Var) -> tirx.Expr:
        row = flat_index(at[:-1], outside)
        block, lane = at[-1] // oc_bn, at[-1] % oc_bn
        value = acc[row, block, lane]
        if correction is not None:
            value = value + correction(block, lane)
        return value.astype(dtype)

    return te.compute((*outside, columns), stored, name=name)


def flatten_output(sch: Schedule, output: SBlockRV, split: int = 0) -> None:
    """Make the loops of a store three, or two where ``split`` is 0, as the product's are.

    # for n, h, t, o: out[n, h, t, o]  ->  for nh, t, o: out[..]  (split 2);  for nht, o (split 0)
    """
    shape = steps.output_shape(sch, output)
    first, rows = shape[:split], shape[split:-1]
    if len(shape) == 2 + bool(split) and len(rows) == 1:
        return

    def flat(*at: tirx.Var) -> tuple[tirx.Expr | int, ...]:
        outside = (flat_index(at[:split], first),) if split else ()
        # A vector times a matrix has no rows: flat_index says the number 0 then.
        row = flat_index(at[split:-1], rows) if rows else tirx.const(0, str(at[-1].ty.dtype))
        return (*outside, row, at[-1])

    sch.transform_block_layout(output, tirx.IndexMap.from_func(flat, ndim=len(shape)))


def split_rows(sch: Schedule, rows: LoopRV, tiles: Tiles) -> tuple[LoopRV, LoopRV, LoopRV, LoopRV]:
    """(chunk, tile, one, row) of a loop over rows.

    The third has one pass: :func:`steps.hold_tile_in_registers` expects rows of pixels.
    """
    chunk, tile, one, row = sch.split(
        rows, [None, tiles.tiles, 1, tiles.height], preserve_unit_iters=True
    )
    return chunk, tile, one, row


def store_tile(
    sch: Schedule, output: SBlockRV, tile: LoopRV, blocks: LoopRV, tiles: Tiles, unit: VectorUnit
) -> None:
    """Store a register tile as soon as it is computed.

    Where the last panel is filled up, its store tests every column, and no vector is stored under a
    test. So the loop over panels is cut before the last one.
    """
    sch.reverse_compute_at(output, tile, preserve_unit_loops=True)
    steps.unroll_and_vectorize(sch, output, unit, pixels=1)
    if tiles.is_filled and tiles.blocks > 1:
        cut_loop(sch, blocks)


def copied_rows(
    element: Callable[..., tirx.Expr], batch: tuple[int, ...], tiles: Tiles, name: str
) -> te.Tensor:
    """(*batch, tiles, height, K): rows side by side; those that overhang repeat the last one.

    ``element(*batch, row, k)`` reads the matrix.
    """

    def copied(*at: tirx.Var) -> tirx.Expr:
        *outside, tile, row, k = at
        place = tile * tiles.height + row
        if tiles.overhangs:
            place = tirx.min(place, tiles.rows - 1)
        return element(*outside, place, k)

    shape = (*batch, tiles.row_chunks * tiles.tiles, tiles.height, tiles.inner)
    return te.compute(shape, copied, name=name)


def place_copied_rows(sch: Schedule, name: str, chunk: LoopRV | None, unit: VectorUnit) -> None:
    """Copy the rows of a chunk just before it; all of them at once without one.

    Rows lie an odd count of lines apart, so that those of a tile do not share a set of the cache.
    """
    rows = steps.find_block(sch, name)
    if rows is None:
        return
    if chunk is not None:
        sch.compute_at(rows, chunk, preserve_unit_loops=True)
    else:
        steps.parallel_fused(sch, *sch.get_loops(rows)[:-2])
    steps.spread_over_sets(sch, rows, len(steps.output_shape(sch, rows)) - 2, unit)
