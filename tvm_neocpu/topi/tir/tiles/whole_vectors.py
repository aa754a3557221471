"""Innermost loops of any extent as whole vectors: the last vector overlaps the one before it.

A vector of TVM divides its loop, and what LLVM vectorises leaves a remainder of single elements: 13
of 13 columns on AVX-512. A stage that reads nothing of what it writes may write elements twice:

    for x in range(35):   ->   for v in range(3):
        y[x] = f(a[x])             x = min(16 v, 35 - 16)
                                   y[x:x + 16] = f(a[x:x + 16])

A row shorter than a vector takes two shorter ones. Borders, where a padding's conditions hold, are
loops of their own, so that the vectors in between test nothing. Elements that lie two apart are
the even (or odd) lanes of two loads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir import Expr, Range
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, For, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.loops.affine import (
    bounds,
    contains,
    names_values,
    replaced,
    store_of,
    with_flat_rows,
)
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    behind,
    counted_loop,
    opaque,
    rewrite_loops,
    sequence,
    with_body,
    with_small_buffers,
)
from tvm_neocpu.topi.tir.loops.vectors import vector_store
from tvm_neocpu.topi.tir.prefetch.prefetch_rows import next_row_requests
from tvm_neocpu.topi.tir.tiles.reduce_row import reduced_row

# Notes on a loop: the lanes of a vector; [first, behind the last] iteration without conditions.
LANES_KEY, INTERIOR_KEY = "neocpu.whole_vectors", "neocpu.interior"
# How many vectors one turn of a long loop takes, where it is not a matter of the formula.
IN_FLIGHT_KEY = "neocpu.vectors_in_flight"
# As many vectors as this are written out; more are a loop.
MAX_UNROLLED = 4


def whole_vectors(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """Rewrite the marked loops, each around one block that stores one element."""

    def rule(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        if LANES_KEY not in loop.annotations:
            return with_body(loop, body)
        assert isinstance(body, SBlockRealize)
        store = with_flat_rows(store_of(body), loop)
        lanes = int(loop.annotations[LANES_KEY])
        vectors = reduced_row(loop, store, lanes)
        return vectors or opaque("vectors", _rewritten(loop, store, outer, cpu))

    if not _has_marks(func):
        return func
    return rewrite_loops(with_small_buffers(func), rule)


def _has_marks(func: tirx.PrimFunc) -> bool:
    return contains(func.body, For, lambda loop: LANES_KEY in loop.annotations)


def _rewritten(loop: For, store: BufferStore, outer: Sequence[For], cpu: Cpu) -> Stmt:
    lanes, extent = int(loop.annotations[LANES_KEY]), int(loop.extent)
    interior = loop.annotations.get(INTERIOR_KEY, (0, extent))
    first, last = (min(int(bound), extent) for bound in interior)
    parts: list[Stmt] = []
    for start, end in ((0, first), (last, extent)):
        if start < end:
            x = tirx.Var("x", "int64")
            parts.append(counted_loop(x, end - start, replaced(store, {loop.loop_var: x + start})))
    if first < last:
        inner = _inside(store, loop, first, last, outer) if parts else store
        parts += _vectors(loop, inner, first, last, lanes, cpu)
    return sequence(parts)


def _inside(
    store: BufferStore, loop: For, first: int, last: int, outer: Sequence[For]
) -> BufferStore:
    """The store without the conditions that hold between ``first`` and ``last``."""
    analyzer = Analyzer()
    for each in outer:
        analyzer.bind(each.loop_var, Range.from_min_extent(each.min, each.extent))
    analyzer.bind(loop.loop_var, bounds(loop.loop_var, first, last))
    return BufferStore(store.buffer, analyzer.simplify(store.value), store.indices)


def _vectors(
    loop: For, store: BufferStore, first: int, last: int, lanes: int, cpu: Cpu
) -> list[Stmt]:
    extent = last - first
    lanes = min(lanes, 1 << (extent.bit_length() - 1))
    count = -(-extent // lanes)

    def vector(at: Expr, width: int) -> Stmt:
        return vector_store(store, loop.loop_var, at, width)

    def few(begin: int) -> list[Stmt]:
        starts = [min(start, last - lanes) for start in range(begin, last, lanes)]
        return [vector(tirx.const(start, "int64"), lanes) for start in starts]

    if count <= MAX_UNROLLED:
        return few(first)
    # Several vectors in flight hide the latency of a long formula.
    together = MAX_UNROLLED if names_values(store.value) else 1
    group = lanes * int(loop.annotations.get(IN_FLIGHT_KEY, together))
    v = tirx.Var("v", "int64")
    start: Expr = v * group + first
    if group == lanes and extent % lanes:
        start = tirx.Min(start, tirx.const(last - lanes, "int64"))
        return [counted_loop(v, count, vector(start, lanes), loop.kind)]
    requests = next_row_requests(store, loop.loop_var, start, group, extent, cpu)
    whole = counted_loop(v, extent // group, behind(requests, vector(start, group)), loop.kind)
    return [whole, *few(first + extent // group * group)]
