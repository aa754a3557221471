"""A CPU's instruction for bytes that a function looks up in a table of 256.

    y[c] = table[int32(x[c])]  ->  y[c] = look_up(table, x[c])

Before TVM vectorises: one instruction then serves the lanes of ``c``, where a load of computed
places is one for each lane.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, StringImm, TensorLoad
from tvm.tirx import AttrStmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.math.look_up import by_instruction, code_of, llvm_code
from tvm_neocpu.topi.tir.loops.affine import contains, names_values
from tvm_neocpu.topi.tir.loops.rewrite_loops import over_body


def plant_look_ups(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with the CPU's instruction in place of every load from a table by a byte."""

    def planted(load: TensorLoad) -> Expr:
        code = code_of(load)
        # TVM does not vectorise a call of bound expressions.
        return load if code is None or names_values(code) else by_instruction(load, code)

    def is_planted(load: TensorLoad) -> bool:
        return planted(load) is not load

    if cpu.look_up is None or not contains(func.body, TensorLoad, is_planted):
        return func
    body = tvm_ffi.structural_map(func.body, (TensorLoad, planted))
    code = StringImm(llvm_code(cpu.look_up))
    return func.with_body(
        over_body(
            body,
            lambda inside: AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", code, inside),
        )
    )
