"""Parts of a reduction that are zero as a rule: multiplied only where they are not.

    for ico:                                      for ico:
        for part in (low, high):          ->          if level[ico] == 0:
            for ici: acc += dot(x[part], ..)              for ici: acc += dot(x[low], ..)  # faster
                                                      else:
                                                          for ici: acc += dot(x[low], ..)
                                                          if level[ico] > 1:
                                                              for ici: acc += dot(x[high], ..)

A template's ``dot`` says what to look at (``needed``), which must not depend on the pixels of a
register tile. Level 0: all words of a step may be added in 16 bits, as if weights were small.
1 (``TWO_WORDS``): each word is widened. 2 (``ONE_WORD``): a word alone does not fit without its
high part.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import For, IfThenElse, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import FOURS_FIT
from tvm_neocpu.topi.math import dot_products
from tvm_neocpu.topi.tir.loops.affine import is_call, replaced
from tvm_neocpu.topi.tir.loops.loop_nests import innermost_block, loops_of
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    opaque,
    over_body,
    rewrite_loops,
    with_body,
    without_mark,
)
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import PREFETCH_KEY

SKIP_KEY = "neocpu.skip"
# The levels: sums of two words do not fit 16 bits, nor do those of a word.
TWO_WORDS, ONE_WORD = 1, 2


def skip_part(sch: Schedule, part: LoopRV) -> None:
    """Mark the loop over the two parts; :func:`skip_parts` acts once all is scheduled."""
    sch.annotate(part, SKIP_KEY, 1)


def skip_parts(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with a test in front of every second part; marks are removed."""
    found = False

    def planted(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        nonlocal found
        if SKIP_KEY not in loop.annotations:
            return with_body(loop, body)
        found = True
        first, second = (replaced(body, {loop.loop_var: _number(loop, at)}) for at in (0, 1))
        needed = _needed(second)
        behind = _tested(needed >= _level(needed, ONE_WORD), _without_requests(second), None)
        whole = SeqStmt([first, behind])
        return _tested(needed >= _level(needed, TWO_WORDS), whole, _of_small_sums(first))

    rewritten = rewrite_loops(func, planted)
    return rewritten if found else func


def _tested(condition: Expr, stmt: Stmt, otherwise: Stmt | None) -> Stmt:
    return opaque("needed", IfThenElse(condition, stmt, otherwise))


def _level(needed: Expr, value: int) -> Expr:
    return tirx.const(value, str(needed.ty.dtype))


def _of_small_sums(stmt: Stmt) -> Stmt:
    """The nest with products whose words are added in 16 bits."""

    def small(call: Call) -> Expr:
        is_dot = is_call(call, dot_products.DOT)
        return dot_products.of_weights(call, FOURS_FIT) if is_dot else call

    return tvm_ffi.structural_map(stmt, (Call, small))


def _needed(stmt: Stmt) -> Expr:
    """What the products in a nest say, at its first pixel."""
    realize = innermost_block(stmt)
    assert realize is not None, "a reduction ends in a block"
    found: list[Expr | None] = []

    def look(call: Call) -> None:
        if is_call(call, dot_products.DOT):
            found.append(dot_products.needed_of(call))

    tvm_ffi.structural_walk(realize.block.body, (Call, look))
    axes = [axis.var for axis in realize.block.iter_vars]
    needed = replaced(found[0], dict(zip(axes, realize.iter_values, strict=True)))
    return replaced(needed, {loop.loop_var: _number(loop, 0) for loop in loops_of(stmt)})


def _number(loop: For, value: int) -> Expr:
    return tirx.const(value, str(loop.loop_var.ty.dtype))


def _without_requests(stmt: Stmt) -> Stmt:
    """The first part asks for the next panel already."""
    if isinstance(stmt, For):
        return without_mark(stmt, PREFETCH_KEY, _without_requests(stmt.body))
    return over_body(stmt, _without_requests) if not isinstance(stmt, SBlockRealize) else stmt
