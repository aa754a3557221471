"""Register tiles that end earlier for some products: Winograd's, whose last tile needs fewer.

    for u, v: for ty, tx:           ->   for u, v in the runs that need as many tiles:
        acc = 0                              for ty, tx of whole register tiles: as before
        for ici: acc[4, 4] += ..             acc = 0
        write acc                            for ici: acc[4, 3] += ..
                                             write acc

A tile that is not needed is written as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from tvm import tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import Evaluate, For, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.loops.affine import replaced
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    over_body,
    rewrite_loops,
    sequence,
    with_body,
    without_mark,
)
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import NO_EPILOGUE, PREFETCH_KEY

NEEDED_ROWS, NEEDED_COLUMNS = "neocpu.needed_rows", "neocpu.needed_columns"
TILE_ROWS, TILE_COLUMNS, SUMMED = "neocpu.tile_rows", "neocpu.tile_columns", "neocpu.summed"
_MARKS = (NEEDED_ROWS, NEEDED_COLUMNS, TILE_ROWS, TILE_COLUMNS, SUMMED)


def drop_unneeded(
    sch: Schedule,
    points: tuple[LoopRV, LoopRV],
    needed: tuple[Sequence[int], Sequence[int]],
    summed: LoopRV,
    inner: tuple[LoopRV, LoopRV],
) -> None:
    """Mark loops; :func:`drop_tiles` acts once all is scheduled.

    ``points``: the loops over a product's row and column; right inside them stand those over rows
    and columns of register tiles. ``needed``: tiles that each row, each column takes. ``summed``:
    the outermost reduction; ``inner``: the rows and columns of a register tile inside it.
    """
    for loop, key, counts in zip(points, (NEEDED_ROWS, NEEDED_COLUMNS), needed, strict=True):
        sch.annotate(loop, key, list(counts))
    sch.annotate(summed, SUMMED, 1)
    for loop, key in zip(inner, (TILE_ROWS, TILE_COLUMNS), strict=True):
        sch.annotate(loop, key, 1)


def drop_tiles(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with a loop nest for every number of tiles that is needed; marks are removed."""
    found = False

    def planted(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        nonlocal found
        if NEEDED_ROWS not in loop.annotations:
            return with_body(loop, body)
        found = True
        largest = max(map(int, loop.annotations[NEEDED_ROWS]))
        return _by_run(loop, NEEDED_ROWS, body, lambda inner, rows: _columns(inner, rows, largest))

    rewritten = rewrite_loops(func, planted)
    return rewritten if found else func


def _columns(loop: Stmt, rows: int, most_rows: int) -> Stmt:
    assert isinstance(loop, For)
    most = most_rows, max(map(int, loop.annotations[NEEDED_COLUMNS]))

    def nest_of(nest: Stmt, columns: int) -> Stmt:
        tiles = _tiles(nest, rows, columns)
        # One kind of nest asks for what the epilogue reads, once.
        return tiles if (rows, columns) == most else _without_epilogue(tiles)

    return _by_run(loop, NEEDED_COLUMNS, loop.body, nest_of)


def _by_run(loop: For, key: str, body: Stmt, inside: Callable[[Stmt, int], Stmt]) -> Stmt:
    """A loop for each run of values that need as many tiles."""
    needed = [int(count) for count in loop.annotations[key]]
    bare = without_mark(loop, key, body)
    parts = [
        _part(bare, inside(body, count), values.start, values.stop, values.step)
        for count, values in runs_of(needed)
    ]
    return sequence(parts)


def runs_of(needed: Sequence[int]) -> list[tuple[int, range]]:
    """The values that need as many tiles: (tiles, values), by the first value.

        3 4 4 4 4 3   ->   (3, 0 and 5), (4, 1 to 4)

    One loop takes all values of a number of tiles that are equally far apart: its nest is compiled
    once. Others are taken run by run.
    """
    found = []
    for count in dict.fromkeys(needed):
        values = [value for value, each in enumerate(needed) if each == count]
        steps = {after - before for before, after in pairwise(values)} or {1}
        if len(steps) == 1:
            found.append((count, range(values[0], values[-1] + 1, *steps)))
            continue
        for _, run in groupby(enumerate(values), lambda pair: pair[1] - pair[0]):
            several = [value for _, value in run]
            found.append((count, range(several[0], several[-1] + 1)))
    return sorted(found, key=lambda run: run[1].start)


def _tiles(nest: Stmt, rows: int, columns: int) -> Stmt:
    """The loops over register tiles, cut where those that are needed end."""
    assert isinstance(nest, For)
    across = nest.body
    assert isinstance(across, For)
    stmts = []
    for top, bottom, high in _cut(nest, rows, _extent_of(across, TILE_ROWS)):
        inside = []
        for left, right, wide in _cut(across, columns, _extent_of(across, TILE_COLUMNS)):
            body = _anew(_narrowed(across.body, high, wide))
            # Later parts are few, and the first one asked for the next panel.
            is_first = top == left == 0
            inside.append(_part(across, body if is_first else _without_requests(body), left, right))
        stmts.append(_part(nest, sequence(inside), top, bottom))
    return sequence(stmts)


def _cut(loop: For, needed: int, size: int) -> list[tuple[int, int, int]]:
    """(first, behind the last, tiles needed of each) of a loop over register tiles."""
    extent, (whole, rest) = int(loop.extent), divmod(needed, size)
    ends = ((0, whole, size), (whole, whole + (rest > 0), rest), (whole + (rest > 0), extent, 0))
    return [(first, end, tiles) for first, end, tiles in ends if first < end]


def _part(loop: For, body: Stmt, start: int, stop: int, step: int = 1) -> Stmt:
    """The loop from ``start`` to ``stop``, counted from 0 by a variable of its own."""
    kind = str(loop.loop_var.ty.dtype)
    var = _like(loop.loop_var)
    value = var if step == 1 else var * tirx.const(step, kind)
    shifted = replaced(body, {loop.loop_var: value + tirx.const(start, kind) if start else value})
    zero, count = tirx.const(0, kind), tirx.const(len(range(start, stop, step)), kind)
    return For(var, zero, count, loop.kind, shifted, None, loop.annotations)


def _anew(stmt: Stmt) -> Stmt:
    """The nest with loops and axes of its own: one that is written again defines none twice."""
    own: dict[tirx.Var, tirx.Var] = {}

    def define(inner: Stmt) -> Stmt:
        if isinstance(inner, For):
            own[inner.loop_var] = _like(inner.loop_var)
        if isinstance(inner, SBlockRealize):
            own.update((axis.var, _like(axis.var)) for axis in inner.block.iter_vars)
        return over_body(inner, define)

    define(stmt)
    return replaced(stmt, own)


def _like(var: tirx.Var) -> tirx.Var:
    return tirx.Var(var.name, str(var.ty.dtype))


def _narrowed(stmt: Stmt, rows: int, columns: int) -> Stmt:
    """The reduction over the first rows and columns of a register tile; none without any."""
    if isinstance(stmt, For):
        if SUMMED in stmt.annotations and not rows * columns:
            return Evaluate(0)
        sizes = {TILE_ROWS: rows, TILE_COLUMNS: columns}
        size = next((count for key, count in sizes.items() if key in stmt.annotations), None)
        kept = {key: note for key, note in stmt.annotations.items() if key not in _MARKS}
        bare = with_body(stmt, _narrowed(stmt.body, rows, columns), kept)
        return bare if size is None else _part(bare, bare.body, 0, size)
    if isinstance(stmt, SBlockRealize) and stmt.block.iter_vars:
        return stmt
    return over_body(stmt, lambda inner: _narrowed(inner, rows, columns))


def _extent_of(stmt: Stmt, key: str) -> int:
    """The extent of the marked loop inside."""
    found: list[int] = []

    def look(inner: Stmt) -> Stmt:
        if isinstance(inner, For) and key in inner.annotations:
            found.append(int(inner.extent))
        return over_body(inner, look)

    look(stmt)
    return found[0]


def _without_epilogue(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For):
        notes = dict(stmt.annotations)
        if PREFETCH_KEY in notes:
            notes[NO_EPILOGUE] = 1
        return with_body(stmt, _without_epilogue(stmt.body), notes)
    return stmt if isinstance(stmt, SBlockRealize) else over_body(stmt, _without_epilogue)


def _without_requests(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For):
        return without_mark(stmt, PREFETCH_KEY, _without_requests(stmt.body))
    return stmt if isinstance(stmt, SBlockRealize) else over_body(stmt, _without_requests)
