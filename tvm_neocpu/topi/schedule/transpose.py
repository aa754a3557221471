"""The schedule of stages whose rows are columns of what they read: marks for square tiles.

:mod:`tvm_neocpu.topi.tir.instructions.transpose_tiles` makes the tiles. Axes that lie side by side
in both tensors become one first, so that a 7x7 image has rows of 49 pixels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore

from tvm_neocpu.core.machine.cpu import VectorUnit
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.instructions.transpose_tiles import (
    INTERLEAVE_KEY,
    PARALLEL_KEY,
    SEPARATE_KEY,
    TILE_KEY,
    strided_load,
)
from tvm_neocpu.topi.tir.loops.affine import chooses

# Sides of a tile: as many rows as the smaller register files hold twice, and no fewer than pay.
MAX_SIDE, MIN_SIDE = 16, 4
# Bytes of the elements that tiles are made for.
ELEMENT_BYTES = (4, 8)
# With as many iterations outside as this, those run in parallel, else they and the tiles.
MIN_PARALLEL_OUTSIDE = 16


def tile_transpose(sch: Schedule, block: SBlockRV, unit: VectorUnit, parallel: bool) -> bool:
    """Mark a stage y[.., i, .., j] = f(x[.., j, .., i]); ``parallel``: over whatever is outside.

    Two or three rows that become one (an image to NHWC) are interleaved, and separated on the way
    back. Returns False, with nothing changed, for any other stage and for axes shorter than a tile.
    """
    found = sch.get(block)
    loops = sch.get_loops(block)
    axes = [axis.var for axis in found.iter_vars]
    store = found.body
    if len(loops) != len(axes) or len(axes) < 2 or not isinstance(store, BufferStore):
        return False
    if [_place(axes, index) for index in store.indices] != [*range(len(axes))]:
        return False
    extents = {axis: steps.loop_extent(sch, loop) for axis, loop in zip(axes, loops, strict=True)}
    along = _read_along(store, axes)
    load = None if along is None else strided_load(store, along, axes[-1], extents)
    if load is None or _has_conditions(store):
        return False
    order = [_place(axes, index) for index in load.indices]
    # What else is read lies along rows of the result as it was stored.
    pure = store.value.same_as(load)
    last = len(axes) - 1
    if last not in order:
        return False
    # A part of what is read (a split's) has gaps between its rows.
    whole = {
        axis
        for axis, length in zip(order, load.source.shape, strict=True)
        if axis is not None and _is_equal(length, extents[axes[axis]])
    }
    j_run = _run(order, last, whole) if pure else [last]
    i_run = _run(order, _place(axes, along) or 0, whole)
    if set(i_run) & set(j_run):
        return False
    sides = [prod(steps.loop_extent(sch, loops[axis]) for axis in run) for run in (i_run, j_run)]
    dtype = str(store.buffer.dtype)
    side = side_of(min(sides), dtype, unit)
    # Few channels of neighbouring pixels: all of a row of pixels lies side by side.
    few, key = side is None and pure and 1 < min(sides) < MIN_SIDE, TILE_KEY
    is_joined = [*i_run, *j_run] == [*range(i_run[0], last + 1)]
    side_by_side = [*j_run, *i_run]
    is_apart = order[-len(side_by_side) :] == side_by_side and whole.issuperset(side_by_side[1:])
    if few and is_joined and sides[1] < sides[0] and not steps.is_allocated(sch, store.buffer):
        side, key = side_of(sides[0], dtype, unit), INTERLEAVE_KEY
    elif few and is_apart and sides[0] < sides[1] and not steps.is_allocated(sch, load.source):
        side, key = side_of(sides[1], dtype, unit), SEPARATE_KEY
    if side is None:
        return False
    outside = [loop for at, loop in enumerate(loops) if at not in (*i_run, *j_run)]
    i, j = (_fused(sch, [loops[axis] for axis in run]) for run in (i_run, j_run))
    sch.reorder(*outside, i, j)
    mark(sch, outside, i, side, parallel, key)
    return True


def side_of(extent: int, dtype: str, unit: VectorUnit) -> int | None:
    """The side of square tiles along axes of at least this extent; ``None`` if none pays."""
    if item_bytes(dtype) not in ELEMENT_BYTES:
        return None
    side = min(max(unit.lanes, MIN_SIDE), MAX_SIDE, 1 << (extent.bit_length() - 1))
    return side if side >= MIN_SIDE else None


def mark(
    sch: Schedule,
    outside: Sequence[LoopRV],
    i: LoopRV,
    side: int,
    parallel: bool,
    key: str = TILE_KEY,
) -> None:
    """Note that the nest of ``i`` and the loop inside it becomes tiles, or rows that interleave.

    ``parallel``: the loops outside, with the tiles where those are few.
    """
    sch.annotate(i, key, side)
    if not parallel:
        return
    if prod(steps.loop_extent(sch, loop) for loop in outside) >= MIN_PARALLEL_OUTSIDE:
        steps.parallel_fused(sch, *outside)
    else:
        sch.annotate(_fused(sch, outside) if outside else i, PARALLEL_KEY, 1)


def _read_along(store: BufferStore, axes: Sequence[tirx.Var]) -> tirx.Var | None:
    """The axis, not the last, that is the last index of what a store reads."""
    found: list[tirx.Var] = []

    def visit(load: TensorLoad) -> None:
        last = load.indices[-1] if len(load.indices) else None
        found.extend(axis for axis in axes[:-1] if axis.same_as(last))

    tvm_ffi.structural_walk(store.value, (TensorLoad, visit))
    return found[0] if found else None


def _has_conditions(store: BufferStore) -> bool:
    """Whether an element may be stored without being read: a tile reads all of its elements."""
    return chooses(store.value)


def _place(axes: Sequence[tirx.Var], index: object) -> int | None:
    return next((at for at, axis in enumerate(axes) if axis.same_as(index)), None)


def _is_equal(length: object, extent: int) -> bool:
    return isinstance(length, tirx.IntImm) and int(length) == extent


def _run(order: Sequence[int | None], last: int, whole: Collection[int]) -> list[int]:
    """The axes up to ``last`` that lie side by side in the result and in ``order``.

    ``order``: for each index of what is read, the axis of the result. ``whole``: the axes that are
    read from end to end.
    """
    run = [last]
    while True:
        at = order.index(run[0])
        if at == 0 or order[at - 1] != run[0] - 1 or run[0] not in whole:
            return run
        run.insert(0, run[0] - 1)


def _fused(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]
