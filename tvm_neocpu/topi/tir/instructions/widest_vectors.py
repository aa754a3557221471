"""Rows of vectors that are too short become vectors of the CPU's width, and a shorter one.

    for a in unrolled(3): y[8 a:8 a + 8] = f(x[8 a:8 a + 8])   ->   y[0:16] = f(x[0:16])
                                                                    y[16:24] = f(x[16:24])

TVM cuts a loop into equal parts: 24 channels are three vectors of 8. LLVM cannot keep a tile in
registers that is written in vectors of 16 and read in parts of 8: it stores the tile, and takes the
first pixels apart through integers (Emerald Rapids, one thread, in turns: 3x224x224->24 of stride 2
took 309 and 343 us, now 173 and 197; ONNX Runtime 273 with its transforms). Part of a register is a
shuffle of all of it, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, For, ForKind, Shuffle, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.schedule.steps import LOCAL
from tvm_neocpu.topi.tir.loops.affine import replaced, stride, uses
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    is_tested,
    opaque,
    rewrite_loops,
    sequence,
    with_body,
)
from tvm_neocpu.topi.tir.loops.vectors import ramp, vector_store


def widest_vectors(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """Rewrite unrolled loops around one vector that is narrower than a register."""

    def rule(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        whole = with_body(loop, body)
        if loop.kind != ForKind.UNROLLED or not isinstance(body, For):
            return whole
        if body.kind != ForKind.VECTORIZED:
            return whole
        count, lanes = int(loop.extent), int(body.extent)
        widest = min((cpu.lanes(str(value.ty.dtype)) for value in _values(body)), default=0)
        if lanes >= widest or count * lanes <= widest or not _is_one_row(loop, body):
            return whole
        return sequence(
            [
                _vector(loop, body, start, width, widest)
                for start, width in _cut(count * lanes, widest)
            ]
        )

    return rewrite_loops(func, rule)


def _cut(extent: int, widest: int) -> list[tuple[int, int]]:
    """(start, lanes) of vectors: whole ones, then the powers of two that the rest is made of."""
    parts, start = [], 0
    while start < extent:
        width = min(widest, 1 << ((extent - start).bit_length() - 1))
        parts.append((start, width))
        start += width
    return parts


def _vector(loop: For, vector: For, start: int, width: int, widest: int) -> Stmt:
    """The statements of ``vector`` from an element of the row on."""
    inside = vector.body
    if width < widest and isinstance(inside, SBlockRealize) and not is_tested(inside):
        part = _part_of_registers(loop, vector, inside.block.body, start, width, widest)
        if part is not None:
            return part
    kind = str(vector.loop_var.ty.dtype)
    lane = tirx.Var(vector.loop_var.name, kind)
    first = tirx.const(start // int(vector.extent), str(loop.loop_var.ty.dtype))
    body = replaced(inside, {loop.loop_var: first, vector.loop_var: lane})
    return For(lane, tirx.const(0, kind), tirx.const(width, kind), ForKind.VECTORIZED, body)


def _part_of_registers(
    loop: For, vector: For, store: Stmt, start: int, width: int, widest: int
) -> Stmt | None:
    """A store of part of what whole registers hold; ``None`` where it is no plain arithmetic."""
    if not isinstance(store, BufferStore):
        return None
    x = tirx.Var("x", str(vector.loop_var.ty.dtype))
    nothing = tirx.const(0, str(loop.loop_var.ty.dtype))
    row = replaced(store, {loop.loop_var: nothing, vector.loop_var: x})
    made = vector_store(row, x, tirx.const(start, str(x.ty.dtype)), width)
    if not isinstance(made, BufferStore):
        return None
    base = start // widest * widest

    def picked(load: TensorLoad) -> Expr:
        if not len(load.indices):
            return load
        *outer, last = load.indices
        whole = load.source.scope() == LOCAL and isinstance(last, tirx.Ramp)
        if not whole or not _is(last.base, start) or base + widest > int(load.source.shape[-1]):
            return load
        place = (*outer, ramp(tirx.const(base, "int64"), widest))
        lanes = [tirx.const(start - base + lane, "int32") for lane in range(width)]
        return Shuffle([load.source[place]], lanes)

    return opaque("part", tvm_ffi.structural_map(made, (TensorLoad, picked)))


def _is_one_row(loop: For, vector: For) -> bool:
    """Whether a tile is read, and all accesses are of one row: ``lanes * a + b`` and neighbours.

    What lies apart would be gathered element by element: a part of a narrower block, as a row.
    """
    a, b, lanes = loop.loop_var, vector.loop_var, int(vector.extent)
    analyzer, accesses = Analyzer(), _accesses(vector.body)
    if not any(buffer.scope() == LOCAL for buffer, _ in accesses):
        return False
    moved: dict[tirx.Var, Expr] = {a: a + 1, b: b - lanes}
    for buffer, indices in accesses:
        if any(not analyzer.can_prove_equal(at, replaced(at, moved)) for at in indices):
            return False
        row = [replaced(index, {a: tirx.const(0, str(a.ty.dtype))}) for index in indices]
        if stride(analyzer, buffer, row, b) not in (0, 1):
            return False
    values = _values(vector.body)
    return not any(uses(_without_loads(value), var) for value in values for var in (a, b))


def _accesses(stmt: Stmt) -> list[tuple[tirx.Buffer, Sequence[Expr]]]:
    """(buffer, indices) of all that a statement reads and writes."""
    found: list[tuple[tirx.Buffer, Sequence[Expr]]] = []
    read = (TensorLoad, lambda load: found.append((load.source, load.indices)))
    written = (BufferStore, lambda store: found.append((store.buffer, store.indices)))
    for kind in (read, written):
        tvm_ffi.structural_walk(stmt, kind)
    return found


def _values(stmt: Stmt) -> list[Expr]:
    found: list[Expr] = []
    tvm_ffi.structural_walk(stmt, (BufferStore, lambda store: found.append(store.value)))
    return found


def _without_loads(value: Expr) -> Expr:
    return tvm_ffi.structural_map(value, (TensorLoad, lambda load: tirx.Var("loaded", load.ty)))


def _is(value: Expr, number: int) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == number
