"""Narrow numbers under a test, which LLVM must not store with a mask.

The last panel of a product may have fewer columns than lanes: its store tests each lane, and so it
is a loop over lanes. LLVM makes vectors of it, with masks. Where it can tell that a mask has one
lane, it stores that lane alone, and forgets that the store truncates: 16 bits of a byte (LLVM 22,
Skylake to Emerald Rapids; of 4 rows of 1001 classes in uint8, class 0 of three was wrong). It makes
no vectors of a loop with an intrinsic that it does not know as vector:

    if o * 16 + c < 1001: out[..] = uint8(..)   ->   (llvm.fake.use(0); if ..: out[..] = uint8(..))

The intrinsic leaves no instruction.
"""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.tirx import BufferStore, Evaluate, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.tir.loops.fake_use import fake_use
from tvm_neocpu.topi.tir.loops.rewrite_loops import block_with, is_tested, over_body

# A register's own width is not truncated.
WHOLE_BYTES = 4


def store_singly(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function whose narrow stores under a test are no vectors of LLVM's."""
    return func.with_body(_marked(func.body))


def _marked(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, SBlockRealize) or not is_tested(stmt):
        return over_body(stmt, _marked)
    store = stmt.block.body
    if not isinstance(store, BufferStore) or item_bytes(str(store.buffer.dtype)) >= WHOLE_BYTES:
        return stmt
    use = fake_use()
    return stmt if use is None else block_with(stmt, SeqStmt([Evaluate(use), store]))
