"""PrimFuncs that sum products of tensors, as TVM's importer writes Einsum.

for i, j, k: y[i, j] += a[i, k] * b[k, j]
"""

from __future__ import annotations

import math

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock

from tvm_neocpu.topi.schedule.contraction import factors_of


def multiply_adds_of(function: tirx.PrimFunc) -> int | None:
    """The multiply-adds of all sums of products in a function; 0 if it has none.

    ``None`` for a sum whose extents are not static. The factors of such a sum are tensors at plain
    loop variables: the taps of a resize, whose pixels are looked up, do not count.
    """
    found: list[int | None] = []

    def visit(block: SBlock) -> None:
        if block.init is not None:
            found.append(_multiply_adds(block))

    tvm_ffi.structural_walk(function.body, (SBlock, visit))
    return None if None in found else sum(count or 0 for count in found)


def _multiply_adds(block: SBlock) -> int | None:
    factors = factors_of(block)
    if not factors or not all(map(_is_plain, factors)):
        return 0
    extents = [axis.dom.extent for axis in block.iter_vars]
    if not all(isinstance(extent, tirx.IntImm) for extent in extents):
        return None
    return math.prod(int(extent) for extent in extents) * (len(factors) - 1)


def _is_plain(load: TensorLoad) -> bool:
    return all(isinstance(index, tirx.Var) for index in load.indices)
