"""Software prefetch of the next row, while a formula is computed for this one.

A row of 4 KiB is a page, at whose end the processor's prefetchers stop. Where the tensor comes from
memory, each row of a softmax then began with misses that nothing hid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.cost.roofline import resident_in_l3
from tvm_neocpu.topi.tir.functions.memory_params import are_constant
from tvm_neocpu.topi.tir.loops.affine import replaced, stride
from tvm_neocpu.topi.tir.prefetch.requests import buffer_bytes, line_of, request


def next_row_requests(
    store: BufferStore, x: tirx.Var, start: Expr, count: int, row: int, cpu: Cpu
) -> list[Stmt]:
    """Requests for what lies ``row`` elements behind x in [start, start + count).

    Of tensors that come from memory and go there, and of rows that L1 holds until they are wanted.
    """
    return [
        request(each.buffer, _beyond(each, x, start + (row + line)), each.written)
        for each in _rows(store)
        if _comes_from_memory(each, x, row, cpu)
        for line in range(0, count, line_of(each.buffer, cpu))
    ]


@dataclass(frozen=True)
class _Row:
    """An element of a row that a loop reads or writes."""

    buffer: tirx.Buffer
    indices: Sequence[Expr]
    written: bool


def _rows(store: BufferStore) -> list[_Row]:
    """What is written, and one element of each tensor that is read."""
    found: dict[tirx.Buffer, _Row] = {}

    def note(load: TensorLoad) -> None:
        found.setdefault(load.source, _Row(load.source, load.indices, written=False))

    tvm_ffi.structural_walk(store.value, (TensorLoad, note))
    return [*found.values(), _Row(store.buffer, store.indices, written=True)]


def _comes_from_memory(each: _Row, x: tirx.Var, row: int, cpu: Cpu) -> bool:
    if not are_constant(each.buffer.shape) or resident_in_l3(buffer_bytes(each.buffer), cpu):
        return False
    row_bytes = row * item_bytes(str(each.buffer.dtype))
    along = stride(Analyzer(), each.buffer, each.indices, x) == 1
    return along and row_bytes <= cpu.l1 / 2


def _beyond(each: _Row, x: tirx.Var, at: Expr) -> tuple[Expr, ...]:
    return tuple(replaced(index, {x: at}) for index in each.indices)
