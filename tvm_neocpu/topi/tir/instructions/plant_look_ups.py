"""A CPU's instruction for bytes that a function looks up in a table of 256.

    y[c] = table[int32(x[c])]  ->  y[c] = look_up(table, x[c])

Before TVM vectorises: one instruction then serves the lanes of ``c``, where a load of computed
places is one for each lane.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, TensorLoad

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.math.look_up import by_instruction, code_of
from tvm_neocpu.topi.math.look_up_code import llvm_code
from tvm_neocpu.topi.tir.loops.affine import contains, names_values
from tvm_neocpu.topi.tir.loops.rewrite_loops import with_code


def plant_look_ups(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with the CPU's instruction in place of every load from a table by a byte."""
    by = cpu.look_up
    if by is None or not contains(func.body, TensorLoad, lambda load: _code_of(load) is not None):
        return func

    def planted(load: TensorLoad) -> Expr:
        code = _code_of(load)
        return load if code is None else by_instruction(load, code, by)

    body = tvm_ffi.structural_map(func.body, (TensorLoad, planted))
    return with_code(func.with_body(body), llvm_code(by))


def _code_of(load: TensorLoad) -> Expr | None:
    """The code of a look-up that may become a call: TVM vectorises none of bound expressions."""
    code = code_of(load)
    return None if code is None or names_values(code) else code
