"""Functions of their own for outermost loops, so that LLVM knows their pointers apart.

TVM hands a parallel loop's buffers over in a struct, where ``noalias`` is lost: LLVM then keeps an
accumulator in memory as soon as anything else in the loop touches memory (a prefetch tripled the
time of a 1x1 convolution), and tests pointers for overlap at run time. The attribute that TVM uses
to outline whole kernels passes them as ``noalias`` arguments again. Serial loops need it too: only
so LLVM tells apart what a kernel allocates itself (a long 1x7 kernel on one thread of Zen 5:
1940 -> 640 us). A chunk costs one call more.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import StringImm
from tvm.tirx import AttrStmt, Evaluate, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.loops.rewrite_loops import opaque, rewrite_loops, with_body

# tirx::attr::compute_scope
COMPUTE_SCOPE = "compute_scope"


def outline_parallel(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """# parallel for i: body  ->  parallel for i: chunk(i, buffers...)."""
    return _outlined(func, serial_too=False)


def outline_chunks(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """# parallel for i: body  ->  parallel for i: chunk(i, buffers...)

    # for i: body  ->  chunk(buffers...), for outermost loops that are serial
    """
    return _outlined(func, serial_too=True)


def _outlined(func: tirx.PrimFunc, serial_too: bool) -> tirx.PrimFunc:

    def over_loop(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        if loop.kind == ForKind.PARALLEL:
            return ended(with_body(loop, outlined(body)))
        whole = serial_too and loop.kind == ForKind.SERIAL and not outer
        if whole and not _is_outlined(body):
            return ended(outlined(with_body(loop, body)))
        return with_body(loop, body)

    return rewrite_loops(func, over_loop)


def _is_outlined(body: Stmt) -> bool:
    """Whether a parallel loop right inside has been outlined already."""
    return isinstance(body, SeqStmt) and any(
        isinstance(part, For) and isinstance(part.body, AttrStmt) for part in body
    )


def outlined(body: Stmt) -> Stmt:
    """The statement as a function of its own."""
    return AttrStmt(tirx.const(0, "int32"), COMPUTE_SCOPE, StringImm("chunk"), body)


def ended(stmt: Stmt) -> Stmt:
    """An outlined part, or a loop of such, with what has to follow it."""
    return SeqStmt([stmt, opaque("chunks_end", _nothing())])


def _nothing() -> Stmt:
    """What ends an outlined part for LLVM's debug information.

    TVM's code generator leaves the outlined function's position behind, and the verifier refuses
    it on the next instruction; any statement sets a new one, and this one costs none.
    """
    return Evaluate(tirx.call_llvm_intrin("void", "llvm.donothing"))
