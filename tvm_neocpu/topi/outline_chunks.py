"""A function of its own for the body of every parallel loop, so that LLVM knows its pointers apart.

TVM hands a parallel loop's buffers over in a struct, where ``noalias`` is lost: LLVM then keeps an
accumulator in memory as soon as anything else in the loop touches memory (a prefetch tripled the
time of a 1x1 convolution), and tests pointers for overlap at run time. The attribute that TVM uses
to outline whole kernels passes them as ``noalias`` arguments again. A chunk costs one call more.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import AttrStmt, Evaluate, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.topi.rewrite_loops import opaque, rewrite_loops, with_body

# tirx::attr::compute_scope
COMPUTE_SCOPE = "compute_scope"


def outline_chunks(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """# parallel for i: body  ->  parallel for i: chunk(i, buffers...)."""
    return rewrite_loops(func, _outlined)


def _outlined(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
    # A loop of one iteration vanishes, and with it the function around the outlined one.
    if loop.kind != ForKind.PARALLEL or int(loop.extent) == 1:
        return with_body(loop, body)
    scope = AttrStmt(tirx.const(0, "int32"), COMPUTE_SCOPE, StringImm("chunk"), body)
    return SeqStmt([with_body(loop, scope), opaque("chunks_end", _nothing())])


def _nothing() -> Stmt:
    """What ends the loop for LLVM's debug information.

    TVM's code generator leaves the outlined function's position behind, and the verifier refuses
    it on the next instruction; any statement sets a new one, and this one costs none.
    """
    return Evaluate(tirx.call_llvm_intrin("void", "llvm.donothing"))
