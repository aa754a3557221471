"""A CPU's instruction for products of bf16 that a template wrote.

    acc[c] = acc[c] + bf16_dot(word(x[2 q], x[2 q + 1]), w[q, c])
    ->  acc[c] = vdpbf16ps(acc[c], reinterpret(int32, x[2 q : 2 q + 2]), w[q, c])
    x[c] = bf16_round(image[c])  ->  x[c] = vcvtneps2bf16(image[c])

Before TVM vectorises: the lanes of ``c`` then become those of the instruction.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import PORTABLE_BF16
from tvm_neocpu.topi.math.bf16_products import (
    BF16_DOT,
    BF16_ROUND,
    accumulate,
    converted_bits,
    llvm_code,
)
from tvm_neocpu.topi.tir.instructions.plant_dots import loaded_word
from tvm_neocpu.topi.tir.loops.affine import contains, is_call
from tvm_neocpu.topi.tir.loops.rewrite_loops import with_code


def plant_bf16(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with the CPU's instruction in place of every ``acc + bf16_dot(word, w)``."""
    by = cpu.bf16 or PORTABLE_BF16

    def planted(total: tirx.Add) -> Expr:
        if not is_call(total.b, BF16_DOT):
            return total
        data, weights = total.b.args
        return accumulate(total.a, loaded_word(data), weights, by)

    def rounding(call: Call) -> Expr:
        return converted_bits(call.args[0], by) if is_call(call, BF16_ROUND) else call

    if not contains(func.body, Call, lambda call: is_call(call, BF16_DOT, BF16_ROUND)):
        return func
    body = tvm_ffi.structural_map(func.body, (tirx.Add, planted))
    if by.widths:
        body = tvm_ffi.structural_map(body, (Call, rounding))
    code = llvm_code(by)
    func = func.with_body(body)
    return with_code(func, code) if code else func
