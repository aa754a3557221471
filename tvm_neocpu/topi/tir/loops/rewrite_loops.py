"""Rewriting the loops of a scheduled function, which TVM's Python offers no visitor for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.ir import Expr, StringImm
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import AttrStmt, Buffer, For, ForKind, IfThenElse, SeqStmt, Stmt

# (loop, its body already rewritten, the loops around it from the outermost) -> what replaces it
Rule = Callable[[For, Stmt, tuple[For, ...]], Stmt]


def rewrite_loops(func: tirx.PrimFunc, rule: Rule) -> tirx.PrimFunc:
    """The function with every loop replaced by what ``rule`` makes of it, inner loops first."""
    return func.with_body(_rewritten(func.body, rule, ()))


def with_body(loop: For, body: Stmt, annotations: Mapping[str, Any] | None = None) -> For:
    """The loop around another body; its annotations stay unless others are given."""
    if annotations is None and body.same_as(loop.body):
        return loop
    notes = loop.annotations if annotations is None else annotations
    return For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, notes, loop.step
    )


def without_mark(loop: For, key: str, body: Stmt) -> For:
    """The loop around another body, without one of its annotations."""
    return with_body(loop, body, {k: note for k, note in loop.annotations.items() if k != key})


def sequence(stmts: Sequence[Stmt]) -> Stmt:
    """Statements one after the other: TVM makes no sequence of a single one."""
    return stmts[0] if len(stmts) == 1 else SeqStmt(list(stmts))


def behind(first: Sequence[Stmt], stmt: Stmt) -> Stmt:
    """The statement behind others, if there are any."""
    return SeqStmt([*first, stmt]) if first else stmt


def over_body(stmt: Stmt, rewrite: Callable[[Stmt], Stmt]) -> Stmt:
    """A loop, attribute, block, test or sequence around what ``rewrite`` makes of its inside.

    The statement itself where that is the same: making a loop anew takes some 20 us.
    """
    if isinstance(stmt, For):
        return with_body(stmt, rewrite(stmt.body))
    if isinstance(stmt, IfThenElse):
        otherwise = None if stmt.else_case is None else rewrite(stmt.else_case)
        return IfThenElse(stmt.condition, rewrite(stmt.then_case), otherwise)
    if isinstance(stmt, SeqStmt):
        parts = stmt.seq[:]
        rewritten = [rewrite(part) for part in parts]
        changed = any(not new.same_as(old) for new, old in zip(rewritten, parts, strict=True))
        return SeqStmt(rewritten) if changed else stmt
    if isinstance(stmt, AttrStmt):
        body = rewrite(stmt.body)
        same = body.same_as(stmt.body)
        return stmt if same else AttrStmt(stmt.node, stmt.attr_key, stmt.value, body)
    if isinstance(stmt, SBlockRealize):
        return block_with(stmt, rewrite(stmt.block.body))
    return stmt


def with_code(func: tirx.PrimFunc, code: str) -> tirx.PrimFunc:
    """The function, compiled together with functions in LLVM's text, which LLVM inlines."""
    key, text = "pragma_import_llvm", StringImm(code)
    return func.with_body(
        over_body(func.body, lambda inside: AttrStmt(tirx.const(0, "int32"), key, text, inside))
    )


def block_with(
    realized: SBlockRealize, body: Stmt, alloc_buffers: Sequence[Buffer] | None = None
) -> SBlockRealize:
    """The block around another body; it allocates the same buffers unless others are given."""
    block = realized.block
    if alloc_buffers is None and body.same_as(block.body):
        return realized
    rewritten = SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        body,
        block.init,
        block.alloc_buffers if alloc_buffers is None else alloc_buffers,
        block.match_buffers,
        block.annotations,
    )
    return SBlockRealize(realized.iter_values, realized.predicate, rewritten)


def is_tested(realized: SBlockRealize) -> bool:
    """Whether a test says if the block is run."""
    test = realized.predicate
    return not (isinstance(test, tirx.IntImm) and int(test) == 1)


def opaque(name: str, stmt: Stmt, buffers: Sequence[Buffer] = ()) -> SBlockRealize:
    """A statement as a block of its own, which lowering asks for among other blocks.

    The block allocates ``buffers``.
    """
    return SBlockRealize([], True, SBlock([], [], [], name, stmt, None, list(buffers)))


def counted_loop(var: tirx.Var, count: Expr | int, body: Stmt, kind: int = ForKind.SERIAL) -> For:
    """A loop from 0 in 64 bits."""
    extent = tirx.const(count, "int64") if isinstance(count, int) else count
    return For(var, tirx.const(0, "int64"), extent, kind, body)


def run_passes(func: tirx.PrimFunc, *passes: tvm.transform.Pass) -> tirx.PrimFunc:
    """One function through passes that want a module."""
    return tvm.transform.Sequential(passes)(tvm.IRModule({"main": func}))["main"]


def with_small_buffers(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Buffers where they are used, as large as what is used of them at once.

    What stages of one chunk hand to each other then stays in a near cache.
    """
    return run_passes(
        func,
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.StmtSimplify(),
    )


def _rewritten(stmt: Stmt, rule: Rule, outer: tuple[For, ...]) -> Stmt:
    if isinstance(stmt, For):
        return rule(stmt, _rewritten(stmt.body, rule, (*outer, stmt)), outer)
    return over_body(stmt, lambda body: _rewritten(body, rule, outer))
