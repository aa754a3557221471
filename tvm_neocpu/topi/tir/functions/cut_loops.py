"""Loops that TVM cuts where a test begins or ends to hold, so that no vector stands under a test.

    for x: y[x] = x in image ? data[x - 3] : 0   ->   for x: 0; for x: data[x - 3]; for x: 0

TVM cuts marked loops while it lowers. Shapes of Relax are of 64 bits, and so are the loops over
them. TVM narrows them first, by variables of its own: the mark then names a variable that is no
more, and the loop stays whole. So a function in which a loop is marked gets indices of 32 bits, by
the last rewrite: with narrow indices before it is scheduled, a convolution behind a gate loses its
loops.
"""

from __future__ import annotations

from math import prod

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import Buffer, BufferType, For

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import MAX_ELEMENTS
from tvm_neocpu.topi.tir.functions.memory_params import are_constant
from tvm_neocpu.topi.tir.loops.affine import contains

# s_tir::attr::pragma_loop_partition_hint
CUT_KEY = "pragma_loop_partition_hint"
WIDE, WIDE_VALUES = "int64", ("int64", "uint64")


def cut_loop(sch: Schedule, loop: LoopRV) -> None:
    """Mark a loop to be cut; :func:`narrow_indices` keeps the mark alive once all is scheduled."""
    sch.annotate(loop, CUT_KEY, 1)


def narrow_indices(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The function with indices of 32 bits where a loop is marked to be cut.

    It stays as it is where an extent is unknown or too large, or where tensors, values or what an
    instruction takes are of 64 bits themselves: TVM would narrow them, too.
    """
    if not contains(func.body, For, lambda loop: CUT_KEY in loop.annotations):
        return func
    buffers = _buffers(func)
    if not all(map(_is_narrow, buffers)) or not any(map(_has_wide_extents, buffers)):
        return func
    if any(contains(func.body, kind, _is_wide) for kind in (tirx.Cast, Call)):
        return func
    mod = tvm.IRModule({"main": func})
    return tirx.transform.ForceNarrowIndexToInt32()(mod)["main"]


def _buffers(func: tirx.PrimFunc) -> list[Buffer | tirx.Var]:
    """Parameters and what blocks allocate."""
    found: list[Buffer | tirx.Var] = list(func.params)
    tvm_ffi.structural_walk(func.body, (SBlock, lambda block: found.extend(block.alloc_buffers)))
    return found


def _is_narrow(buffer: Buffer | tirx.Var) -> bool:
    if not isinstance(buffer.ty, BufferType) or not are_constant(buffer.shape):
        return False
    elements = prod(int(extent) for extent in buffer.shape)
    return str(buffer.dtype) != WIDE and elements <= MAX_ELEMENTS


def _is_wide(value: tirx.Cast | Call) -> bool:
    """Whether it makes a number of 64 bits, or takes one as it is: how far rows of a tile lie."""
    given = value.args if isinstance(value, Call) else ()
    numbers = [value, *(number for number in given if isinstance(number, tirx.IntImm))]
    # An address has no type of an element.
    return any(str(getattr(each.ty, "dtype", "")) in WIDE_VALUES for each in numbers)


def _has_wide_extents(buffer: Buffer | tirx.Var) -> bool:
    return any(str(extent.ty.dtype) == WIDE for extent in buffer.shape)
