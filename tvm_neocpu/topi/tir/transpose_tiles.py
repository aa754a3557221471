"""Loop nests that turn rows into columns, as square tiles that are turned in registers.

TVM loads the elements of a vector one by one if they do not lie side by side. A tile of 16 x 16
takes 16 loads, 64 shuffles of two registers each, and 16 stores instead of 256 loads.

    for i, j:                     for j0, i0 in steps of 16:
        y[i, j] = x[j, i]   ->        v[r] = x[j0 + r, i0:i0 + 16] for r in 0..15
                                      w = v turned
                                      y[i0 + r, j0:j0 + 16] = w[r] for r in 0..15

The last tile of an axis ends where the axis ends: it overlaps the tile before it and copies the
same elements again. So no element is copied alone.

Two or three rows (an image to NHWC) are narrower than a tile, and their columns lie side by side:

    for i, j: y[i, j] = x[j, i]   ->   y[i0:i0 + 8, 0:3] = x[0, i0:i0 + 8] and two more, interleaved
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, Range, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import Bind, BufferStore, For, ForKind, SeqStmt, Shuffle, Stmt

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.tir.affine import replaced, store_of, stride
from tvm_neocpu.topi.tir.rewrite_loops import counted_loop, opaque, rewrite_loops, with_body

# Notes on the loop over ``i``: the side of a tile; whether the tiles run in parallel.
TILE_KEY, PARALLEL_KEY = "neocpu.transpose_tile", "neocpu.transpose_parallel"
# The lanes of rows that interleave; vectors of them that a parallel chunk stores.
INTERLEAVE_KEY, JOINED_TILES = "neocpu.interleave", 128
# Tiles along ``i`` that share their rows of ``x``: 16 rows of 1 KiB stay in L1.
TILES_IN_A_ROW = 16
# Bytes between which x86 interleaves two registers without a table; a register of NEON.
LANE_BYTES = 16


def transpose_tiles(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """Rewrite the marked nests, each of two loops around one block."""

    def rule(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        if TILE_KEY in loop.annotations:
            return opaque("transposed", _tiled(loop, body, outer))
        if INTERLEAVE_KEY in loop.annotations:
            return opaque("joined", _joined_rows(loop, body, outer))
        return with_body(loop, body)

    return rewrite_loops(func, rule)


@dataclass(frozen=True)
class _Nest:
    """y[.., i, .., j] = x[.., j, .., i], or a function of it."""

    i: For
    j: For
    store: BufferStore
    load: TensorLoad

    def at(self, expr: Expr, i: Expr, j: Expr) -> Expr:
        """An expression of the nest where its loops stand at (i, j)."""
        values = {self.i.loop_var: i, self.j.loop_var: j}
        return replaced(expr, values)


def _nest_of(i_loop: For, j_loop: For, outer: Sequence[For]) -> tuple[_Nest, ForKind]:
    """The nest, and the kind of its outermost loop."""
    kind = ForKind.PARALLEL if PARALLEL_KEY in i_loop.annotations else ForKind.SERIAL
    store = store_of(j_loop.body)
    extents = {loop.loop_var: int(loop.extent) for loop in (*outer, i_loop, j_loop)}
    load = strided_load(store, i_loop.loop_var, j_loop.loop_var, extents)
    assert load is not None
    return _Nest(i_loop, j_loop, store, load), kind


def _joined_rows(i_loop: For, j_loop: For, outer: Sequence[For]) -> Stmt:
    """All of j for ``lanes`` of i as one vector."""
    lanes, count = int(i_loop.annotations[INTERLEAVE_KEY]), int(j_loop.extent)
    nest, kind = _nest_of(i_loop, j_loop, outer)
    tiles = -(-int(i_loop.extent) // lanes)
    groups = -(-tiles // JOINED_TILES)
    in_group = -(-tiles // groups)
    group, tile = (tirx.Var(name, "int64") for name in ("group", "tile"))
    zero = tirx.const(0, "int64")
    i = _start(group * in_group + tile, groups * in_group, lanes, int(i_loop.extent))
    rows = []
    for row in range(count):
        *outer_at, last = (nest.at(index, i, zero + row) for index in nest.load.indices)
        place = (*outer_at, _ramp(last, lanes))
        rows.append(nest.load.source[place])
    order = [tirx.const(row * lanes + at, "int32") for at in range(lanes) for row in range(count)]
    *outer_at, last = (nest.at(index, i, zero) for index in nest.store.indices)
    row_of_all = BufferStore(
        nest.store.buffer, Shuffle(rows, order), [*outer_at, _ramp(last, lanes * count)]
    )
    body = counted_loop(tile, in_group, row_of_all)
    return counted_loop(group, groups, body, kind)


def _tiled(i_loop: For, j_loop: For, outer: Sequence[For]) -> Stmt:
    side = int(i_loop.annotations[TILE_KEY])
    nest, kind = _nest_of(i_loop, j_loop, outer)
    tiles = -(-int(i_loop.extent) // side)
    groups = -(-tiles // TILES_IN_A_ROW)
    in_group = -(-tiles // groups)
    group, tile, column = (tirx.Var(name, "int64") for name in ("group", "tile", "column"))
    columns = -(-int(j_loop.extent) // side)
    i = _start(group * in_group + tile, groups * in_group, side, int(i_loop.extent))
    j = _start(column, columns, side, int(j_loop.extent))
    body: Stmt = SeqStmt([*_turned(nest, i, j, side), *_finished(nest, i, j, side)])
    body = counted_loop(tile, in_group, body)
    body = counted_loop(column, columns, body)
    return counted_loop(group, groups, body, kind)


def _start(tile: Expr, tiles: int, side: int, extent: int) -> Expr:
    """Where a tile begins: none ends behind the end of the axis."""
    begin = tile * side
    return begin if tiles * side <= extent else tirx.Min(begin, tirx.const(extent - side, "int64"))


def _turned(nest: _Nest, i: Expr, j: Expr, side: int) -> list[Stmt]:
    """Load the rows of a tile, turn them, store them."""
    stmts: list[Stmt] = []

    def named(value: Expr) -> Expr:
        var = tirx.Var("t", value.ty)
        stmts.append(Bind(var, value))
        return var

    rows = []
    for row in range(side):
        *outer, last = (nest.at(index, i, j + row) for index in nest.load.indices)
        place = (*outer, _ramp(last, side))
        rows.append(named(nest.load.source[place]))
    for row, value in enumerate(turned(rows, str(nest.store.buffer.dtype), named)):
        *outer, last = (nest.at(index, i + row, j) for index in nest.store.indices)
        stmts.append(BufferStore(nest.store.buffer, value, [*outer, _ramp(last, side)]))
    return stmts


def _finished(nest: _Nest, i: Expr, j: Expr, side: int) -> list[Stmt]:
    """What the nest computes of an element, once the tile is turned: y = f(y), in L1.

    # y[i, j] = max(x[j, i], 0)  ->  y[tile] = turned x[tile]; y[tile] = max(y[tile], 0)
    """
    if nest.store.value.same_as(nest.load):
        return []
    own = nest.store.buffer[tuple(nest.store.indices)]

    def of_own(load: TensorLoad) -> Expr:
        return own if tvm_ffi.structural_equal(load, nest.load) else load

    value = tvm_ffi.structural_map(nest.store.value, (TensorLoad, of_own))
    row, lane = tirx.Var("row", "int64"), tirx.Var("lane", "int64")
    indices = [nest.at(index, i + row, j + lane) for index in nest.store.indices]
    store: Stmt = BufferStore(nest.store.buffer, nest.at(value, i + row, j + lane), indices)
    return [counted_loop(row, side, counted_loop(lane, side, store, ForKind.VECTORIZED))]


def turned(rows: Sequence[Expr], dtype: str, named: Callable[[Expr], Expr]) -> list[Expr]:
    """The columns of a square of vectors; ``named`` gives every intermediate vector a name.

    Inside pieces of 16 bytes rows are interleaved, which takes x86 one instruction; then pieces
    change places between rows.
    """
    side, piece = len(rows), LANE_BYTES // item_bytes(dtype)
    if piece == 4:
        rows = [named(row) for row in _interleaved(rows)]
        step = 4
    else:
        step = 1
    while step < side:
        rows = [named(row) for row in _exchanged(rows, step)]
        step *= 2
    return list(rows)


def _interleaved(rows: Sequence[Expr]) -> list[Expr]:
    """Squares of 4 x 4 turned, in all pieces of 4 lanes at once.

    (a0 a1 a2 a3), (b0 ..), (c0 ..), (d0 ..)  ->  (a0 b0 c0 d0), (a1 b1 c1 d1), ..
    """
    side = len(rows)

    def zipped(a: Expr, b: Expr, picks: Sequence[int]) -> Expr:
        """In each piece the four lanes ``picks`` of a's piece (0-3) and b's piece (4-7)."""
        lanes = [
            piece + pick if pick < 4 else side + piece + pick - 4
            for piece in range(0, side, 4)
            for pick in picks
        ]
        return _shuffle(a, b, lanes)

    found: list[Expr] = []
    low, high, first, second = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)
    for at in range(0, side, 4):
        a, b, c, d = rows[at : at + 4]
        ab, cd = zipped(a, b, low), zipped(c, d, low)
        more_ab, more_cd = zipped(a, b, high), zipped(c, d, high)
        found += [
            zipped(ab, cd, first),
            zipped(ab, cd, second),
            zipped(more_ab, more_cd, first),
            zipped(more_ab, more_cd, second),
        ]
    return found


def _exchanged(rows: Sequence[Expr], step: int) -> list[Expr]:
    """Rows r and r + step exchange the pieces of ``step`` lanes that lie off the diagonal."""
    side, found = len(rows), list(rows)
    for row in range(side):
        if row & step:
            continue
        a, b = rows[row], rows[row + step]
        low = [side + lane - step if lane & step else lane for lane in range(side)]
        high = [side + lane if lane & step else lane + step for lane in range(side)]
        found[row], found[row + step] = _shuffle(a, b, low), _shuffle(a, b, high)
    return found


def _shuffle(a: Expr, b: Expr, lanes: Sequence[int]) -> Expr:
    return Shuffle([a, b], [tirx.const(lane, "int32") for lane in lanes])


def _ramp(start: Expr, lanes: int) -> Expr:
    return tirx.Ramp(start, tirx.const(1, "int64"), lanes)


def strided_load(
    store: BufferStore, i: tirx.Var, j: tirx.Var, extents: Mapping[tirx.Var, int]
) -> TensorLoad | None:
    """The one element that is read along ``i`` and stored along ``j``, however often it is read.

    ``extents`` are those of the loops. ``None`` if there are several such elements, and for any
    other store. Other loads stand still along ``j`` or follow it.
    """
    analyzer = Analyzer()
    for var, extent in extents.items():
        analyzer.bind(var, Range(0, extent))
    if stride(analyzer, store.buffer, store.indices, j) != 1:
        return None
    found: list[TensorLoad] = []

    def visit(load: TensorLoad) -> None:
        is_known = any(tvm_ffi.structural_equal(load, other) for other in found)
        if not is_known and stride(analyzer, load.source, load.indices, j) not in (0, 1):
            found.append(load)

    tvm_ffi.structural_walk(store.value, (TensorLoad, visit))
    if len(found) != 1 or str(found[0].source.dtype) != str(store.buffer.dtype):
        return None
    (load,) = found
    return load if stride(analyzer, load.source, load.indices, i) == 1 else None
