"""A reduction along a row as one of vectors, whatever the length of the row.

    for k in range(197):         v0, .., v3 = x[0:16], .., x[48:64]
        y = y + x[k]       ->    for i: v0 += x[64 i:64 i + 16]; ..; v3 += x[64 i + 48:64 i + 64]
                                 v0[0:4] += x[192:196]; v0[0:1] += x[196:197]
                                 y = y + the sum of (v0 + v1) + (v2 + v3) by halves

Several accumulators hide the latency of an addition, and lose fewer digits than one.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import Bind, Buffer, BufferStore, For, ForKind, SeqStmt, Shuffle, Stmt

from tvm_neocpu.topi.tir.loops.affine import replaced, uses
from tvm_neocpu.topi.tir.loops.rewrite_loops import counted_loop
from tvm_neocpu.topi.tir.loops.vectors import ramp, wide

# Additions of 4 cycles, one a cycle or two.
ACCUMULATORS = 4

_COMBINES = (tirx.Add, tirx.Mul, tirx.Max, tirx.Min)


def reduced_row(loop: For, store: BufferStore, lanes: int) -> Stmt | None:
    """``for k: y = combine(y, f(k))`` in vectors; ``None`` for any other store.

    ``y`` must not move with ``k``.
    """
    value = store.value
    if not isinstance(value, _COMBINES) or not _is_own(value.a, store):
        return None
    if any(uses(index, loop.loop_var) for index in store.indices):
        return None
    row = _Row(loop, type(value), value.b, min(lanes, _power_below(int(loop.extent))), store)
    return row.as_block()


def _power_below(extent: int) -> int:
    """The largest power of two that is not above ``extent``."""
    return 1 << (extent.bit_length() - 1)


def _is_own(load: Expr, store: BufferStore) -> bool:
    return isinstance(load, TensorLoad) and load.source.same_as(store.buffer)


class _Row:
    """One reduction, statement by statement.

    Vectors have names, so that they stay in registers; ``totals`` is where a loop hands its
    accumulators on, and ``terms`` where TVM vectorises a term that :func:`wide` does not.
    """

    def __init__(
        self, loop: For, combine: type, term: Expr, lanes: int, store: BufferStore
    ) -> None:
        self.k, self.extent = loop.loop_var, int(loop.extent)
        self.combine, self.term, self.lanes, self.store = combine, term, lanes, store
        self.vectors = self.extent // lanes
        self.count = min(ACCUMULATORS, self.vectors)
        dtype = str(store.buffer.dtype)
        self.totals: Buffer = tirx.decl_buffer((self.count * lanes,), dtype, "row_totals")
        self.terms: Buffer = tirx.decl_buffer((lanes,), dtype, "row_terms")
        self.stmts: list[Stmt] = []

    def as_block(self) -> SBlockRealize:
        """All of it."""
        vectors = self._whole_vectors()
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=False)
            odd = vectors[len(vectors) // 2 * 2 :]
            vectors = [self._named(self.combine(*pair)) for pair in pairs] + odd
        total = self._folded(vectors[0], self._rest())
        own = self.store.buffer[tuple(self.store.indices)]
        result = self.combine(own, total)
        self.stmts.append(BufferStore(self.store.buffer, result, self.store.indices))
        body = SeqStmt(self.stmts)
        block = SBlock([], [], [], "row", body, alloc_buffers=[self.totals, self.terms])
        return SBlockRealize([], True, block)

    def _whole_vectors(self) -> list[Expr]:
        """The accumulators, once every whole vector is in one of them."""
        vectors = [self._term(at * self.lanes, self.lanes) for at in range(self.count)]
        rounds = self.vectors // self.count
        if rounds > 1:
            vectors = self._loop(vectors, rounds)
        for at in range(self.vectors % self.count):
            term = self._term((rounds * self.count + at) * self.lanes, self.lanes)
            vectors[at] = self._named(self.combine(vectors[at], term))
        return vectors

    def _loop(self, vectors: list[Expr], rounds: int) -> list[Expr]:
        """The accumulators after ``rounds`` terms each, of which they have the first."""
        places = [
            ramp(tirx.const(at * self.lanes, "int64"), self.lanes) for at in range(self.count)
        ]
        for place, vector in zip(places, vectors, strict=True):
            self.stmts.append(BufferStore(self.totals, vector, [place]))
        before, self.stmts = self.stmts, []
        i = tirx.Var("i", "int64")
        for at, place in enumerate(places):
            term = self._term(((i + 1) * self.count + at) * self.lanes, self.lanes)
            total = self.combine(self.totals[place], term)
            self.stmts.append(BufferStore(self.totals, total, [place]))
        self.stmts = [*before, counted_loop(i, rounds - 1, SeqStmt(self.stmts))]
        return [self._named(self.totals[place]) for place in places]

    def _rest(self) -> dict[int, Expr]:
        """What is less than a vector, by width: vectors of 8, 4, 2 and 1."""
        found: dict[int, Expr] = {}
        start = self.vectors * self.lanes
        while start < self.extent:
            width = _power_below(self.extent - start)
            found[width] = self._term(start, width)
            start += width
        return found

    def _folded(self, vector: Expr, rest: dict[int, Expr]) -> Expr:
        """One element: halves are combined, the rest where it is as wide as a half."""
        width = self.lanes
        while width > 1:
            width //= 2
            low, high = (
                Shuffle([vector], [tirx.const(at, "int32") for at in range(start, start + width)])
                for start in (0, width)
            )
            vector = self._named(self.combine(low, high))
            if width in rest:
                vector = self._named(self.combine(vector, rest[width]))
        return vector

    def _term(self, start: Expr | int, width: int) -> Expr:
        """``width`` terms from ``start`` on."""
        begin = tirx.const(start, "int64") if isinstance(start, int) else start
        vector = wide(self.term, self.k, begin, width)
        if vector is None:
            lane = tirx.Var("lane", "int64")
            store = BufferStore(self.terms, replaced(self.term, {self.k: begin + lane}), [lane])
            self.stmts.append(counted_loop(lane, width, store, ForKind.VECTORIZED))
            vector = self.terms[ramp(tirx.const(0, "int64"), width)]
        return self._named(vector)

    def _named(self, value: Expr) -> Expr:
        var = tirx.Var("t", value.ty)
        self.stmts.append(Bind(var, value))
        return var
