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

From NHWC the elements of 8 pixels are loaded together, and each row picks its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import Bind, BufferStore, For, ForKind, SeqStmt, Shuffle, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.instructions.turn_square import lanes_of, turned
from tvm_neocpu.topi.tir.loops.affine import bounds, replaced, store_of, stride
from tvm_neocpu.topi.tir.loops.rewrite_loops import counted_loop, opaque, rewrite_loops, with_body

# A note on the loop over ``i``: the side of a tile. One on the loop around it, or on that of ``i``
# itself where there is none: the tiles run in parallel, all of them in one fork.
TILE_KEY, PARALLEL_KEY = "neocpu.transpose_tile", "neocpu.transpose_parallel"
# The lanes of rows that interleave, or are separated; vectors of them in a parallel chunk.
INTERLEAVE_KEY, SEPARATE_KEY, JOINED_TILES = "neocpu.interleave", "neocpu.separate", 128
# Tiles along ``i`` that share their rows of ``x``: 16 rows of 1 KiB stay in L1.
TILES_IN_A_ROW = 16
# Pieces of parallel work for a core, where rows of fewer tiles can make so many.
PIECES_A_CORE = 4
_AT_0 = tirx.const(0, "int64")


def transpose_tiles(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """Rewrite the marked nests, each of two loops around one block."""

    def rule(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        pieces = PIECES_A_CORE * cpu.cores if cpu.cores > 1 else 1
        if _is_marked(loop):
            parallel = PARALLEL_KEY in loop.annotations
            name, groups = _rewritten(loop, body, outer, pieces if parallel else 1)
            return opaque(name, _parallel(groups) if parallel else groups)
        if PARALLEL_KEY in loop.annotations:
            inner = loop.body
            wanted = ceil(pieces / max(1, int(loop.extent)))  # 0 of an empty tensor
            name, groups = _rewritten(inner, inner.body, (*outer, loop), wanted)
            return opaque(name, _parallel(_one_loop(loop, groups)))
        return with_body(loop, body)

    return rewrite_loops(func, rule)


def _rewritten(loop: For, body: Stmt, outer: tuple[For, ...], pieces: int) -> tuple[str, For]:
    """A marked nest's name and its loop over groups, of which there should be ``pieces``."""
    if TILE_KEY in loop.annotations:
        return "transposed", _tiled(loop, body, outer, pieces)
    if SEPARATE_KEY in loop.annotations:
        return "separated", _separated_rows(loop, body, outer)
    return "joined", _joined_rows(loop, body, outer)


def _is_marked(loop: For) -> bool:
    return any(key in loop.annotations for key in (TILE_KEY, INTERLEAVE_KEY, SEPARATE_KEY))


def _parallel(loop: For) -> For:
    return For(loop.loop_var, loop.min, loop.extent, ForKind.PARALLEL, loop.body)


def _one_loop(outer: For, inner: For) -> For:
    """# for o in 12: for g in 3: f(o, g)  ->  for p in 36: f(p // 3, p % 3)

    In turn by the outer loop: what follows often gives a core the same part of it.
    """
    piece, count = tirx.Var("piece", "int64"), int(inner.extent)
    if int(outer.extent) == 1 or count == 1:
        loop, fixed = (inner, outer) if count > 1 else (outer, inner)
        return counted_loop(
            loop.loop_var, int(loop.extent), replaced(inner.body, {fixed.loop_var: _AT_0})
        )
    at = {
        outer.loop_var: tirx.indexdiv(piece, tirx.const(count, "int64")),
        inner.loop_var: tirx.indexmod(piece, tirx.const(count, "int64")),
    }
    return counted_loop(piece, int(outer.extent) * count, replaced(inner.body, at))


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


def _nest_of(i_loop: For, j_loop: For, outer: Sequence[For]) -> _Nest:
    store = store_of(j_loop.body)
    extents = {loop.loop_var: int(loop.extent) for loop in (*outer, i_loop, j_loop)}
    load = strided_load(store, i_loop.loop_var, j_loop.loop_var, extents)
    assert load is not None
    return _Nest(i_loop, j_loop, store, load)


def _joined_rows(i_loop: For, j_loop: For, outer: Sequence[For]) -> For:
    """All of j for ``lanes`` of i as one vector."""
    lanes, count = int(i_loop.annotations[INTERLEAVE_KEY]), int(j_loop.extent)
    nest = _nest_of(i_loop, j_loop, outer)

    def joined(i: Expr) -> Stmt:
        rows = [_row_of(nest, i, row, lanes) for row in range(count)]
        order = [row * lanes + at for at in range(lanes) for row in range(count)]
        place = _along(nest, nest.store.indices, (i, _AT_0), lanes * count)
        return BufferStore(nest.store.buffer, Shuffle(rows, lanes_of(order)), place)

    return _in_groups(int(i_loop.extent), lanes, joined)


def _separated_rows(i_loop: For, j_loop: For, outer: Sequence[For]) -> For:
    """``lanes`` of j for each i, of vectors that hold all of these."""
    lanes, count = int(i_loop.annotations[SEPARATE_KEY]), int(i_loop.extent)
    nest = _nest_of(i_loop, j_loop, outer)

    def separated(j: Expr) -> Stmt:
        *outer_at, last = (nest.at(index, _AT_0, j) for index in nest.load.indices)
        places = [(*outer_at, _ramp(last + part * lanes, lanes)) for part in range(count)]
        parts = [nest.load.source[place] for place in places]
        names = [tirx.Var("pixels", part.ty) for part in parts]
        stmts: list[Stmt] = [Bind(name, part) for name, part in zip(names, parts, strict=True)]
        for row in range(count):
            place = _along(nest, nest.store.indices, (tirx.const(row, "int64"), j), lanes)
            picked = Shuffle(names, lanes_of([at * count + row for at in range(lanes)]))
            stmts.append(BufferStore(nest.store.buffer, picked, place))
        return SeqStmt(stmts)

    return _in_groups(int(j_loop.extent), lanes, separated)


def _in_groups(extent: int, lanes: int, at: Callable[[Expr], Stmt]) -> For:
    """# for g: for t: at(start of tile t of group g)."""
    tiles = ceil(extent / lanes)
    groups = ceil(tiles / JOINED_TILES)
    in_group = ceil(tiles / groups)
    group, tile = (tirx.Var(name, "int64") for name in ("group", "tile"))
    start = _start(group * in_group + tile, groups * in_group, lanes, extent)
    return counted_loop(group, groups, counted_loop(tile, in_group, at(start)))


def _row_of(nest: _Nest, i: Expr, j: int, lanes: int) -> Expr:
    place = _along(nest, nest.load.indices, (i, tirx.const(j, "int64")), lanes)
    return nest.load.source[tuple(place)]


def _along(nest: _Nest, indices: Sequence[Expr], at: tuple[Expr, Expr], lanes: int) -> list[Expr]:
    """``lanes`` elements from where the indices are at (i, j)."""
    *outer, last = (nest.at(index, *at) for index in indices)
    return [*outer, _ramp(last, lanes)]


def _tiled(i_loop: For, j_loop: For, outer: Sequence[For], pieces: int) -> For:
    """``pieces``: groups of tiles there should be, if there are so many tiles."""
    side = int(i_loop.annotations[TILE_KEY])
    nest = _nest_of(i_loop, j_loop, outer)
    wanted = max(pieces, ceil(int(i_loop.extent) / side / TILES_IN_A_ROW))
    groups, in_group = _shared(int(i_loop.extent), side, wanted)
    parts, in_part = _shared(int(j_loop.extent), side, ceil(pieces / groups))
    group, part, tile, column = (
        tirx.Var(name, "int64") for name in ("group", "part", "tile", "column")
    )
    i = _start(group * in_group + tile, groups * in_group, side, int(i_loop.extent))
    j = _start(part * in_part + column, parts * in_part, side, int(j_loop.extent))
    body: Stmt = SeqStmt([*_turned(nest, i, j, side), *_finished(nest, i, j, side)])
    body = counted_loop(tile, in_group, body)
    body = counted_loop(column, in_part, body)
    whole = counted_loop(group, groups, counted_loop(part, parts, body))
    return _one_loop(whole, whole.body)


def _shared(extent: int, side: int, wanted: int) -> tuple[int, int]:
    """About so many groups of tiles, and the tiles of one.

    The last tile and the one that it overlaps are of one group: two cores would finish the elements
    that they share twice (:func:`_finished`).
    """
    tiles = ceil(extent / side)
    in_group = ceil(tiles / max(1, wanted))
    while extent % side and tiles > 1 and (tiles - 1) % in_group == 0:
        in_group += 1
    return ceil(tiles / in_group), in_group


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
        analyzer.bind(var, bounds(var, 0, extent))
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
