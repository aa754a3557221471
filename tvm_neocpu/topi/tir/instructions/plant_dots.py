"""A CPU's instruction for the dot products of integers that a template wrote.

    acc[c] = acc[c] + dot((word(x[4 q], x[4 q + 1], x[4 q + 2], x[4 q + 3]), w[q, c]))
    ->  acc[c] = vpdpbusd(acc[c], reinterpret(int32, x[4 q : 4 q + 4]), w[q, c])

Before TVM vectorises: the lanes of ``c`` then become those of the instruction.
"""

from __future__ import annotations

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import SIGNED_BYTES
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.math import dot_products
from tvm_neocpu.topi.tir.loops.affine import contains, is_call
from tvm_neocpu.topi.tir.loops.vectors import ramp

# Elements of this type are two bytes each.
PAIRS_OF_BYTES = "uint16"


def plant_dots(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with the CPU's instruction in place of every ``acc + dot((word, w), ..)``."""

    def planted(total: tirx.Add) -> Expr:
        if not is_call(total.b, dot_products.DOT):
            return total
        weight_bits, pairs = dot_products.operands_of(total.b)
        data = pairs[0][0]
        if not is_call(data, dot_products.WORD):
            return dot_products.accumulate(total.a, pairs, cpu.dot_of(2))
        dtype = str(data.args[0].ty.dtype)
        elements = len(data.args) * (item_bytes(dtype) if dtype == PAIRS_OF_BYTES else 1)
        by = cpu.dot_of(elements, len(pairs), weight_bits, dtype == SIGNED_BYTES)
        loaded = [(loaded_word(word), weights) for word, weights in pairs]
        return dot_products.accumulate(total.a, loaded, by)

    if not _has_dots(func):
        return func
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.Add, planted)))


def loaded_word(word: Call) -> Expr:
    """Neighbouring elements as one load of 32 bits."""
    first = word.args[0]
    *outer, last = first.indices
    place = (*outer, ramp(last, len(word.args)))
    return tirx.reinterpret(dot_products.WORD_TYPE, first.source[place])


def _has_dots(func: tirx.PrimFunc) -> bool:
    return contains(func.body, Call, lambda call: is_call(call, dot_products.DOT))
