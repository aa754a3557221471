"""Short trips of a parallel loop, several to a call.

    parallel for i in 12544: y[16 i:16 i + 16] = x[16 i:16 i + 16]   ->
    parallel for o in 49: for i in range(256 o, 256 o + 256): y[16 i:16 i + 16] = x[16 i:16 i + 16]

Trips with a choice stay alone: which part of a concat a trip reads is found once then, and by
each vector in a loop (GoogLeNet's took twice as long).

A trip is a function of its own (:mod:`.outline_chunks`), and a call takes as long as 15 stores
(Emerald Rapids, one thread, in turns: a copy of 256x28x28 took 61 us, now 35).
"""

from __future__ import annotations

from math import ceil

from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.tirx import AttrStmt, BufferStore, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.topi.tir.loops.affine import chooses
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body

# Stores beside which a call is short.
ENOUGH = 256
# Trips that are left for each core, so that all end at nearly the same time.
TRIPS_A_CORE = 16


def group_trips(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with a serial loop inside of parallel loops whose trips are short."""

    def rule(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        whole = with_body(loop, body)
        if loop.kind != ForKind.PARALLEL or not isinstance(loop.extent, tirx.IntImm):
            return whole
        stores = None if chooses(body) else _stores(body, cpu)
        together = _together(int(loop.extent), stores, cpu) if stores else 1
        return _grouped(whole, together) if together > 1 else whole

    return rewrite_loops(func, rule)


def _together(trips: int, stores: int, cpu: Cpu) -> int:
    """The trips of one call: no fewer than are long enough, and a divisor of all."""
    most = trips // (TRIPS_A_CORE * cpu.cores)
    fitting = [count for count in factors(trips) if count <= most]
    enough = [count for count in fitting if count * stores >= ENOUGH]
    return min(enough, default=max(fitting, default=1))


def _grouped(loop: For, together: int) -> For:
    dtype = str(loop.loop_var.ty.dtype)
    group = tirx.Var(f"{loop.loop_var.name}_group", dtype)
    count = tirx.const(together, dtype)
    inner = For(loop.loop_var, group * count + loop.min, count, ForKind.SERIAL, loop.body)
    groups = tirx.const(int(loop.extent) // together, dtype)
    return For(group, tirx.const(0, dtype), groups, ForKind.PARALLEL, inner)


def _stores(stmt: Stmt, cpu: Cpu) -> int | None:
    """The stores of a statement, a vector's as one; ``None`` where they are not known."""
    if isinstance(stmt, For):
        inside = _stores(stmt.body, cpu)
        if inside is None or not isinstance(stmt.extent, tirx.IntImm):
            return None
        is_vector = stmt.kind == ForKind.VECTORIZED
        return inside * ceil(int(stmt.extent) / (cpu.lanes("float32") if is_vector else 1))
    if isinstance(stmt, SeqStmt):
        parts = [_stores(part, cpu) for part in stmt]
        return None if None in parts else sum(part for part in parts if part is not None)
    if isinstance(stmt, AttrStmt):
        return _stores(stmt.body, cpu)
    if isinstance(stmt, SBlockRealize):
        return _stores(stmt.block.body, cpu)
    return 1 if isinstance(stmt, BufferStore) else None
