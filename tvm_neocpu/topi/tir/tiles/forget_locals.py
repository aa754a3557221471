"""Tell LLVM that what a loop nest held in registers is of no use after it.

TVM allocates a parallel loop's buffers outside its outlined body, so their last contents count as
results. LLVM kept a product's 28 accumulators alive through Winograd's inverse transform, which
had four registers left and spilled (550 instructions, 258 of them touching the stack; with this
pass 314 and 17: VGG's 64x224x224 layer 6 % faster on Zen 5). A store of zeros behind the nest ends
their live ranges, for a few dozen stores. At the end of the chunk it would not: LLVM does not look
that far ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tvm import s_tir, tirx
from tvm.s_tir import SBlockRealize
from tvm.tirx import AttrStmt, Buffer, BufferStore, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.schedule.steps import LOCAL
from tvm_neocpu.topi.tir.functions.outline_chunks import COMPUTE_SCOPE
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    opaque,
    over_body,
    run_passes,
    sequence,
    with_small_buffers,
)

# The attribute of functions whose buffers are as small as they get: TVM need not look again.
COMPACTED = "neocpu.compacted"


def forget_locals(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """# for tile: (acc; ..)  ->  for tile: (acc; ..); acc = 0, where parts were outlined."""
    if not any(buffer.scope() == LOCAL for buffer in _allocated(func)):
        return func
    compacted = with_small_buffers(func)
    forgetful = compacted.with_body(_forgetful(compacted.body, outlined=False))
    # Allocated where they are cleared, too.
    placed = run_passes(forgetful, s_tir.transform.PlanAndUpdateBufferAllocationLocation())
    return placed.with_attr(COMPACTED, 1)


def is_compacted(func: tirx.PrimFunc) -> bool:
    """Whether :func:`forget_locals` made the function's buffers small, and all of them."""
    return bool(func.attrs) and COMPACTED in func.attrs


def _allocated(func: tirx.PrimFunc) -> Iterable[Buffer]:
    """A scheduled function's buffers, which all belong to its root block."""
    root = func.body
    return root.block.alloc_buffers if isinstance(root, SBlockRealize) else ()


def _forgetful(stmt: Stmt, outlined: bool) -> Stmt:
    if isinstance(stmt, AttrStmt) and stmt.attr_key == COMPUTE_SCOPE:
        parts = stmt.body if isinstance(stmt.body, SeqStmt) else [stmt.body]
        return over_body(stmt, lambda _: _in_turn(parts, outlined=True))
    if isinstance(stmt, SeqStmt):
        return _in_turn(stmt, outlined)
    return over_body(stmt, lambda body: _forgetful(body, outlined))


def _in_turn(parts: Iterable[Stmt], outlined: bool) -> Stmt:
    """The parts, behind each of them its locals cleared."""
    rewritten: list[Stmt] = []
    for part in parts:
        rewritten.append(_forgetful(part, outlined))
        if outlined:
            rewritten += [_cleared(buffer) for buffer in _locals_of(part)]
    return sequence(rewritten)


def _locals_of(nest: Stmt) -> Iterator[Buffer]:
    """Local buffers that live in one pass through a loop nest."""
    while isinstance(nest, For | SBlockRealize):
        if isinstance(nest, SBlockRealize):
            yield from (b for b in nest.block.alloc_buffers if b.scope() == LOCAL)
        nest = nest.block.body if isinstance(nest, SBlockRealize) else nest.body


def _cleared(buffer: Buffer) -> Stmt:
    """A loop nest that fills a buffer with zeros."""
    axes = [tirx.Var(f"i{axis}", "int32") for axis in range(len(buffer.shape))]
    stmt: Stmt = BufferStore(buffer, tirx.const(0, buffer.dtype), axes)
    for axis, extent in zip(reversed(axes), reversed(buffer.shape), strict=True):
        stmt = For(axis, 0, extent, ForKind.SERIAL, stmt)
    return opaque("forgotten", stmt)
