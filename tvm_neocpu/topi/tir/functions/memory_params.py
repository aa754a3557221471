"""Functions whose memory is laid out by their caller: arguments anywhere, workspace an argument.

TVM plans activations in whole pieces, each of which begins with a tensor, and every kernel
allocates its own workspace (padded or transformed data) beside them. That memory was last touched
an inference ago and came from DRAM: on Zen 5 Winograd on 128x56x56, stride 2, took 650 us in a loop
and 1120 in ResNet-50. A caller that lays out all of it in one arena needs functions that take both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlockRealize
from tvm.tirx import Buffer, BufferType, DeclBuffer, SeqStmt
from tvm.tirx.expr import IntImm

from tvm_neocpu.core.machine.alignment import ALIGNMENT
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.tir.functions.in_place import written_over
from tvm_neocpu.topi.tir.loops.rewrite_loops import block_with

# Less than this stays in L2 wherever it lies.
MIN_BYTES = 64 * 1024


@dataclass(frozen=True)
class Workspace:
    """A buffer that a function wants from its caller: ``elements`` in a row of ``dtype``."""

    elements: int
    dtype: str

    @property
    def size(self) -> int:
        """In bytes."""
        return self.elements * item_bytes(self.dtype)


def takes_memory_params(func: tirx.PrimFunc) -> bool:
    """Whether :func:`with_memory_params` can rewrite it: scheduled, all shapes constant."""
    return isinstance(func.body, SBlockRealize) and all(map(_is_plain, func.params))


def workspaces_of(func: tirx.PrimFunc) -> tuple[Workspace, ...]:
    """The workspaces that :func:`with_memory_params` would make arguments."""
    if not takes_memory_params(func):
        return ()
    buffers = filter(_is_large, func.body.block.alloc_buffers)
    return tuple(Workspace(_elements(buffer), str(buffer.dtype)) for buffer in buffers)


class Placed(NamedTuple):
    """A function that :func:`with_memory_params` rewrote: ``spaces`` follow its arguments, and
    argument ``over`` is what its result is written over (None: it has all of its arguments)."""

    func: tirx.PrimFunc
    spaces: tuple[Workspace, ...] = ()
    over: int | None = None


def with_memory_params(
    func: tirx.PrimFunc, movable: Collection[int], over: Collection[int] = ()
) -> Placed:
    """The function with its large workspaces as last arguments.

    Arguments at the positions ``movable``, and workspaces, may begin anywhere in their memory, at
    multiples of ``ALIGNMENT`` bytes; TVM refuses that of others. The first of the arguments
    ``over`` that the result can be written over is gone.

    # f(x, out): alloc pad; body  ->  f(x_at, out_at, pad_at): x = &x_at[0]; ..; body
    """
    for at in over:
        written = written_over(func, at)
        if written is not None:
            left = [place - (place > at) for place in movable if place != at]
            return with_memory_params(written, left)._replace(over=at)
    block = func.body.block
    large = [buffer for buffer in block.alloc_buffers if _is_large(buffer)]
    spaces = workspaces_of(func)
    params = list(func.params)
    views = []
    for at in movable:
        params[at] = _anywhere(params[at], [int(extent) for extent in params[at].shape])
        views.append(_view(func.params[at], params[at]))
    for buffer, space in zip(large, spaces, strict=True):
        params.append(_anywhere(buffer, [space.elements]))
        views.append(_view(buffer, params[-1]))
    if not views:
        return Placed(func)
    kept = [buffer for buffer in block.alloc_buffers if not _is_large(buffer)]
    body = block_with(func.body, SeqStmt([*views, block.body]), kept)
    return Placed(tirx.PrimFunc(params, body, func.ret_type, func.attrs), spaces)


def are_constant(extents: Iterable[Expr]) -> bool:
    """Whether all are numbers, none is symbolic."""
    return all(isinstance(extent, IntImm) for extent in extents)


def _is_plain(param: tirx.Var) -> bool:
    """Whether a parameter is a buffer that lies in a row, its shape and its offset known."""
    return (
        isinstance(param.ty, BufferType)
        and are_constant((*param.shape[:], param.elem_offset))
        and not param.strides
    )


def _is_large(buffer: Buffer) -> bool:
    return (
        buffer.scope() == "global"
        and are_constant((*buffer.shape[:], *buffer.strides[:]))
        and _elements(buffer) * item_bytes(str(buffer.dtype)) >= MIN_BYTES
    )


def _elements(buffer: Buffer) -> int:
    """Elements from its first to beyond its last, what lies between rows included."""
    if buffer.strides:
        return int(buffer.strides[0]) * int(buffer.shape[0])
    return prod(int(extent) for extent in buffer.shape[:])


def _anywhere(buffer: Buffer, shape: list[int]) -> Buffer:
    """A parameter for a buffer's contents whose offset is only known when called."""
    return tirx.decl_buffer(
        shape,
        buffer.dtype,
        name=f"{buffer.name}_memory",
        elem_offset=tirx.Var(f"{buffer.name}_offset", "int64"),
        offset_factor=ALIGNMENT // item_bytes(str(buffer.dtype)),
    )


def _view(buffer: Buffer, memory: Buffer) -> DeclBuffer:
    return DeclBuffer(buffer, data=tirx.address_of(memory[tuple([0] * len(memory.shape))]))
