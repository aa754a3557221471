"""32-bit loop variables, so that hints for TVM's own lowering survive it.

Shapes of Relax are of 64 bits, and so are the loops over them. TVM narrows them while it lowers: a
hint to cut a loop (``pragma_loop_partition_hint``) then names a variable that is no more, and the
loop stays whole.
"""

from __future__ import annotations

from math import prod

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock
from tvm.tirx import Buffer, BufferType

from tvm_neocpu.topi.tir.functions.memory_params import are_constant

# The elements that an index of 32 bits reaches.
MAX_ELEMENTS = 2**31


def narrow_indices(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with indices of 32 bits; as it is where an extent is unknown or too large.

    Where nothing is wider the function itself is returned, without TVM's pass: a ``Schedule`` of
    that pass's result would change the function that was given.
    """
    buffers = _buffers(func)
    if not all(map(_is_narrow, buffers)) or not any(map(_has_wide_extents, buffers)):
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
    return prod(int(extent) for extent in buffer.shape) < MAX_ELEMENTS


def _has_wide_extents(buffer: Buffer | tirx.Var) -> bool:
    return any(str(extent.ty.dtype) != "int32" for extent in buffer.shape)
