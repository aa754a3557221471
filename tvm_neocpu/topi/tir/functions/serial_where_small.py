"""Parallel loops whose work is less than a fork and join become serial.

    parallel for i in 4: chunk(i)    ->    chunk: for i in 4: ..

A loop of small layers (an RNN's steps) wakes the other cores for each of them. Where one of these
cores is busy, all wait for it.
"""

from __future__ import annotations

from functools import partial
from math import ceil, inf, prod
from typing import Any

from tvm import tirx
from tvm.ir import Call, Expr, PointerType, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.tirx import (
    AttrStmt,
    Bind,
    BufferStore,
    BufferType,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
)

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.math.lets import MULTIPLY_ADD, ROUNDED_ONCE
from tvm_neocpu.topi.tir.functions.outline_chunks import COMPUTE_SCOPE, ended, outlined
from tvm_neocpu.topi.tir.loops.rewrite_loops import over_body, rewrite_loops, with_body

# Instructions of a call in a formula: an exponential function, a test; fewer of some.
_CALL = 10
_CALLS = {MULTIPLY_ADD: 1, ROUNDED_ONCE: 1, "tirx.reinterpret": 0}
# Instructions that a core completes in a cycle.
_A_CYCLE = 2
# Where a formula keeps its parts, and formulas that take no instruction of their own.
_PARTS = ("a", "b", "value", "body", "condition", "true_value", "false_value")
_FREE = (tirx.Mul, tirx.Broadcast, tirx.Let)


def serial_where_small(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The scheduled function without forks that take longer than the other cores save.

    The work is its instructions, and the function's tensors through L3 once. Loops of
    unknown extent stay as they are.
    """
    if cpu.cores == 1:
        return func
    saved = 1 - 1 / cpu.cores
    waits = _bytes_of(func) / cpu.l3_bytes_per_cycle
    enough = (cpu.fork_join * cpu.ghz * 1e9 / saved - waits) * _A_CYCLE

    def rewritten(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        if loop.kind != ForKind.PARALLEL:
            return with_body(loop, body)
        work, extent = _instructions(loop.body, cpu), _number(loop.extent)
        small = work is not None and extent is not None and work * extent < enough
        return _serial(loop, body) if small or extent == 1 else with_body(loop, body)

    return rewrite_loops(func, rewritten)


def serial(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The scheduled function without any fork."""

    def rewritten(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        forks = loop.kind == ForKind.PARALLEL
        return _serial(loop, body) if forks else with_body(loop, body)

    return rewrite_loops(func, rewritten)


def _serial(loop: For, body: Stmt) -> Stmt:
    """The loop as a serial one; what was outlined in it is outlined with the loop.

    LLVM's verifier refuses a loop that ends with a call of an outlined part.
    """
    inside, parts = _inlined(body)
    serial = For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, inside)
    return ended(outlined(serial)) if parts else serial


def _inlined(stmt: Stmt) -> tuple[Stmt, int]:
    """The statement without outlined parts, and how many it had."""
    found = 0

    def inside(part: Stmt) -> Stmt:
        nonlocal found
        if isinstance(part, AttrStmt) and part.attr_key == COMPUTE_SCOPE:
            found += 1
            return inside(part.body)
        return over_body(part, inside)

    return inside(stmt), found


def _bytes_of(func: tirx.PrimFunc) -> float:
    """The bytes of its parameters; infinite where a run alone knows them."""
    total = 0
    for param in func.params:
        if isinstance(param.ty, BufferType):
            known = [number for extent in param.shape if (number := _number(extent)) is not None]
            if len(known) < len(param.shape):
                return inf
            total += prod(known) * item_bytes(str(param.dtype))
    return total


def _instructions(stmt: Stmt, cpu: Cpu) -> int | None:
    """Vector instructions of a statement; ``None`` where they are not known."""
    inside = partial(_instructions, cpu=cpu)
    if isinstance(stmt, For):
        extent, body = _number(stmt.extent), inside(stmt.body)
        if extent is None or body is None:
            return None
        if stmt.kind == ForKind.VECTORIZED:
            extent = ceil(extent / cpu.lanes("float32"))
        return extent * body
    if isinstance(stmt, SeqStmt):
        return _sum([inside(part) for part in stmt])
    if isinstance(stmt, IfThenElse):
        parts = [stmt.then_case, *([] if stmt.else_case is None else [stmt.else_case])]
        return _sum([inside(part) for part in parts])
    if isinstance(stmt, AttrStmt):
        return inside(stmt.body)
    if isinstance(stmt, SBlockRealize):
        init = stmt.block.init
        return _sum([inside(stmt.block.body), *([] if init is None else [inside(init)])])
    if isinstance(stmt, DeclBuffer) or (isinstance(stmt, Bind) and _names_address(stmt)):
        return 0
    # The store is not counted: a sum's element stays in a register.
    return _operations(stmt.value) if isinstance(stmt, BufferStore | Evaluate) else None


def _names_address(bind: Bind) -> bool:
    """Not a vector of a row's products, which is work."""
    return isinstance(bind.var.ty, PointerType)


def _operations(value: Any) -> int:
    """The loads, arithmetic and calls of a formula; products are parts of multiply-adds."""
    if isinstance(value, TensorLoad):
        return 1
    if isinstance(value, Call):
        own = _CALLS.get(getattr(value.op, "name", ""), _CALL)
        return own + sum(map(_operations, value.args))
    # A constant's value is a number, and no formula.
    found = (getattr(value, name, None) for name in _PARTS)
    parts = [part for part in found if isinstance(part, Expr)]
    return sum(map(_operations, parts)) + (bool(parts) and not isinstance(value, _FREE))


def _sum(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _number(extent: Any) -> int | None:
    return int(extent) if isinstance(extent, int | tirx.IntImm) else None
