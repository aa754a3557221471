"""A matrix unit's instructions for the products of words that a template wrote.

    for o, y, x: (tiles of 14 pixels x 32 filters)
        acc = 0                                           ->  zero registers 0, 1
        for ico, kh, kw:                                      for ico, kh, kw:
            for ici, xi, c: acc += dot(word(x), w)        ->      registers 0, 1 += x times w, w'
        write acc                                             store registers to acc; write acc

Registers get their shapes where a parallel chunk begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import Buffer, BufferStore, Evaluate, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.matrix_unit import LANES
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.math import dot_products, matrix_tiles
from tvm_neocpu.topi.math.bf16_products import BF16_DOT
from tvm_neocpu.topi.math.matrix_tiles import MAX_SUMS, Cut, cut
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.loops.affine import contains, is_call, replaced, store_of, stride
from tvm_neocpu.topi.tir.loops.loop_nests import analyzer_of, innermost_block, loops_of
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    block_with,
    counted_loop,
    opaque,
    rewrite_loops,
    sequence,
    with_body,
    without_mark,
)

# Notes on loops: over parallel chunks, over a tile's rows where it is zeroed, the outermost and the
# innermost one of the reduction, which has two more: the pitch of a run of rows, and how many sums
# of a pixel are kept.
_KEYS = CHUNK_KEY, ZERO_KEY, SUM_KEY, STEP_KEY, SUMS_KEY = tuple(
    f"neocpu.matrix_{name}" for name in ("chunk", "zero", "sum", "step", "sums")
)
NO_RUN = 0


def multiply_in_tiles(
    sch: Schedule,
    acc: SBlockRV,
    chunk: LoopRV,
    reduction: Sequence[LoopRV],
    sums: int,
    pitch: int | None,
) -> None:
    """Mark the loops of a reduction over words; :func:`plant_tiles` acts once all is scheduled.

    Inside ``reduction`` are the loops over a register tile's rows, columns and lanes. ``sums``:
    how many of a pixel are kept for the epilogue, of all passes. ``pitch``: as in :func:`cut`.
    The template says both, because TVM narrows what is kept after this rewrite.
    """
    sch.set_scope(acc, 0, steps.LOCAL)
    zero = sch.decompose_reduction(acc, reduction[0])
    for loop, key, value in (
        (chunk, CHUNK_KEY, 1),
        (sch.get_loops(zero)[-3], ZERO_KEY, 1),
        (reduction[0], SUM_KEY, 1),
        (reduction[-1], STEP_KEY, pitch or NO_RUN),
        (reduction[-1], SUMS_KEY, sums),
    ):
        sch.annotate(loop, key, value)


def plant_tiles(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with the unit's instructions in place of marked nests; marks are removed."""
    if not contains(func.body, For, lambda loop: STEP_KEY in loop.annotations):
        return func
    if cpu.matrix is None or cpu.matrix.is_plain:
        return rewrite_loops(func, _unmarked)
    tile = _tile_of(func)

    def planted(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        if STEP_KEY in loop.annotations:
            return opaque("matrix_product", _products(tile))
        if ZERO_KEY in loop.annotations:
            zeros = [matrix_tiles.zeroed(register) for register in range(tile.cut.products)]
            return opaque("matrix_zero", sequence(zeros))
        if SUM_KEY in loop.annotations:
            summed = without_mark(loop, SUM_KEY, body)
            return SeqStmt([summed, opaque("matrix_store", _stores(tile))])
        if CHUNK_KEY in loop.annotations:
            return without_mark(loop, CHUNK_KEY, with_registers(body, tile.cut))
        return with_body(loop, body)

    rewritten = rewrite_loops(func, planted)
    root = rewritten.body
    return rewritten.with_body(block_with(root, with_permission(root.block.body)))


def _unmarked(loop: For, body: Stmt, _: tuple[For, ...]) -> For:
    kept = {key: note for key, note in loop.annotations.items() if key not in _KEYS}
    return with_body(loop, body, kept)


@dataclass(frozen=True)
class _Access:
    """Where the elements of an operand lie: ``index`` is that of the tile's first one."""

    buffer: Buffer
    index: tuple[Expr, ...]

    def at(self, places: dict[tirx.Var, int]) -> Expr:
        values = {var: tirx.const(place, str(var.ty.dtype)) for var, place in places.items()}
        return tirx.address_of(self.buffer[self.index_at(values)])

    def index_at(self, values: dict[tirx.Var, Expr]) -> tuple[Expr, ...]:
        return tuple(replaced(each, values) for each in self.index)

    def bytes_along(self, var: tirx.Var, analyzer: Analyzer) -> int:
        moved = stride(analyzer, self.buffer, self.index, var)
        assert moved is not None, "rows of a tile lie evenly apart"
        return moved * item_bytes(str(self.buffer.dtype))


@dataclass(frozen=True)
class _Tile:
    """A register tile's reduction: loops over words, rows, columns, lanes, and three operands.

    ``kept``: the sums of a pixel that the epilogue reads, of all passes.
    """

    loops: tuple[tirx.Var, ...]
    data: _Access
    weights: _Access
    sums: _Access
    row_bytes: tuple[int, int, int]
    elements: int
    pixels: tuple[int, int]
    cut: Cut
    kept: int

    @property
    def fills_lanes(self) -> bool:
        """Whether the last tile of filters has zeros, whose sums nobody wants."""
        return self.cut.filters * LANES > self.kept

    def data_at(self, pixels: int) -> Expr:
        return self.data.at(self._places(pixels, 0))

    def weights_at(self, filters: int) -> Expr:
        return self.weights.at(self._places(0, filters))

    def sums_at(self, pixels: int, filters: int) -> Expr:
        return self.sums.at(self._places(pixels, filters))

    def _places(self, pixels: int, filters: int) -> dict[tirx.Var, int]:
        row, column = self.cut.starts[pixels]
        where = (0, row, column, filters * LANES)
        return dict(zip(self.loops, where, strict=True))


def _tile_of(func: tirx.PrimFunc) -> _Tile:
    found: list[_Tile] = []

    def look(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        if STEP_KEY in loop.annotations:
            found.append(_described(loop, outer))
        return with_body(loop, body)

    rewrite_loops(func, look)
    (tile,) = found
    return tile


def _described(step: For, outer: tuple[For, ...]) -> _Tile:
    loops = loops_of(step)
    words, rows, columns, lanes = (loop.loop_var for loop in loops)
    analyzer, kept = analyzer_of((*outer, *loops)), int(step.annotations[SUMS_KEY])
    update = innermost_block(step)
    assert update is not None, "a reduction ends in a block"
    data, weights, sums, elements = _operands(update)
    summed, height, width, channels = (int(loop.extent) for loop in loops)
    apart = (
        data.bytes_along(columns, analyzer),
        weights.bytes_along(words, analyzer),
        kept * item_bytes(str(sums.buffer.dtype)),
    )
    pitch = int(step.annotations[STEP_KEY])
    found = cut((height, width), None if pitch == NO_RUN else pitch, channels, summed)
    assert found.products <= MAX_SUMS, "a config that no cut fits is a misfit"
    variables = (words, rows, columns, lanes)
    return _Tile(variables, data, weights, sums, apart, elements, (height, width), found, kept)


def _operands(update: SBlockRealize) -> tuple[_Access, _Access, _Access, int]:
    """Data, weights, sums, and the elements of a word, of ``acc += dot(word(x), w)``."""
    store = store_of(update)
    call = store.value.b
    assert isinstance(call, Call), "a template multiplies words"
    if is_call(call, BF16_DOT):
        word, weights = call.args
    else:
        _, ((word, weights),) = dot_products.operands_of(call)
    first: TensorLoad = word.args[0]
    return (
        _Access(first.source, tuple(first.indices)),
        _Access(weights.source, tuple(weights.indices)),
        _Access(store.buffer, tuple(store.indices)),
        len(word.args),
    )


def _products(tile: _Tile) -> Stmt:
    """One step: each tile is loaded once, and waits for all that it is multiplied with."""
    made: list[Stmt] = []
    cut, (of_data, of_weights, _) = tile.cut, tile.row_bytes

    def load_weights(f: int) -> None:
        made.append(matrix_tiles.loaded(cut.weights(f), tile.weights_at(f), of_weights))

    if cut.keeps_filters:
        for f in range(cut.filters):
            load_weights(f)
    for p in range(len(cut.starts)):
        made.append(matrix_tiles.loaded(cut.data(p), tile.data_at(p), of_data))
        for f in range(cut.filters):
            if not cut.keeps_filters:
                load_weights(f)
            registers = cut.sums(p, f), cut.data(p), cut.weights(f)
            made.append(matrix_tiles.multiplied(*registers, tile.elements))
    return SeqStmt(made)


def _stores(tile: _Tile) -> Stmt:
    cut, (*_, apart) = tile.cut, tile.row_bytes
    places = list(product(range(len(cut.starts)), range(cut.filters)))
    if cut.gap or tile.fills_lanes:
        return _picked(tile, places)
    return sequence(
        [matrix_tiles.stored(cut.sums(p, f), tile.sums_at(p, f), apart) for p, f in places]
    )


def _picked(tile: _Tile, places: Sequence[tuple[int, int]]) -> Stmt:
    """All sums in memory of their own, and of these the pixels and filters that are asked for.

    # store registers to run; for y, x: acc[y, x] = run[9 * y + x]
    """
    cut, (rows, columns), dtype = tile.cut, tile.pixels, str(tile.sums.buffer.dtype)
    pitch, channels = columns + cut.gap, cut.filters * LANES
    length = (rows - 1) * pitch + columns
    run = tirx.decl_buffer((length, channels), dtype, "matrix_run", scope=steps.LOCAL)
    stored = []
    for p, f in places:
        row, column = cut.starts[p]
        at = tirx.address_of(run[row * pitch + column, f * LANES])
        stored.append(matrix_tiles.stored(cut.sums(p, f), at, channels * item_bytes(dtype)))
    wanted = min(channels, tile.kept)
    # LLVM lowers a vector whose length is no power of two element by element.
    lanes = wanted & -wanted
    y, x, vector, lane = (tirx.Var(name, "int64") for name in ("y", "x", "vector", "lane"))
    at_lane = lane if lanes == wanted else vector * lanes + lane
    index = tile.sums.index_at(dict(zip(tile.loops[1:], (y, x, at_lane), strict=True)))
    picked: Stmt = BufferStore(tile.sums.buffer, run[y * pitch + x, at_lane], index)
    for var, extent, kind in (
        (lane, lanes, ForKind.VECTORIZED if lanes > 1 else ForKind.UNROLLED),
        (vector, wanted // lanes, ForKind.UNROLLED),
        (x, columns, ForKind.UNROLLED),
        (y, rows, ForKind.SERIAL),
    ):
        picked = counted_loop(var, extent, picked, kind)
    # TVM would narrow the run to what is picked of it: it does not see what instructions store.
    whole = Evaluate(tirx.address_of(run[length - 1, channels - 1]))
    return opaque("matrix_run", SeqStmt([*stored, whole, picked]), [run])


def with_registers(body: Stmt, cut: Cut) -> Stmt:
    """A chunk between what gives registers their shapes and what clears them."""
    dtype, count = matrix_tiles.CONFIGURATION
    room = tirx.decl_buffer((count,), dtype, "matrix_shapes", scope=steps.LOCAL)
    shapes = matrix_tiles.configured(room, cut)
    setup = opaque("matrix_setup", SeqStmt(shapes), [room])
    return SeqStmt([setup, body, opaque("matrix_release", matrix_tiles.released())])


def with_permission(body: Stmt) -> Stmt:
    """A function's body behind the request for the registers."""
    return SeqStmt([opaque("matrix_permission", SeqStmt(matrix_tiles.permission())), body])
