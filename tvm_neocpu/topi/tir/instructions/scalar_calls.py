"""Vectors of what has no vector instruction become scalars here, where a formula names values.

    for lane in vectorized(16): y[lane] = 2 acos(let t = acos(x[lane]) in t t)
    ->  for lane in 16: ..

TVM's vectoriser makes the same loop of it, but visits parts of the formula twice meanwhile. A
``Let`` that it visits again is an error to it: "Let cannot bind the same var to two different
values".
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Call
from tvm.tirx import For, ForKind, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.math.vector_calls import SCALAR
from tvm_neocpu.topi.tir.loops.affine import contains, is_call, names_values
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body


def scalar_calls(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with such loops serial; before TVM vectorises."""
    if not names_values(func.body) or not _calls_scalars(func.body):
        return func

    def rewritten(loop: For, body: Stmt, outer: tuple[For, ...]) -> Stmt:
        if loop.kind == ForKind.VECTORIZED and _calls_scalars(body):
            return For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, body)
        return with_body(loop, body)

    return rewrite_loops(func, rewritten)


def _calls_scalars(stmt: Stmt) -> bool:
    return contains(stmt, Call, lambda call: is_call(call, *SCALAR))
