"""One software prefetch: asking memory for a cache line before it is wanted."""

from __future__ import annotations

from math import prod

from tvm import tirx
from tvm.ir import Expr
from tvm.tirx import Buffer, Evaluate, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.cost.roofline import MIN_PREFETCHED_BYTES
from tvm_neocpu.topi.tir.loops.rewrite_loops import opaque

# Of (N, C/x, H, W, x).
MAP_RANK = 5
# More requests in a step cost more issue slots than memory costs time.
MAX_PER_STEP = 4


def request(buffer: Buffer, index: tuple[Expr | int, ...], to_write: bool = False) -> Stmt:
    """Ask for the line of one element, which may lie beyond a row's or the buffer's end."""
    keep_close, data_cache = 3, 1
    address = tirx.address_of(buffer[index])
    call = tirx.call_intrin("void", "tirx.prefetch", address, int(to_write), keep_close, data_cache)
    return opaque("prefetch", Evaluate(call))


def line_of(buffer: Buffer, cpu: Cpu) -> int:
    """Elements of a cache line."""
    return cpu.unit(str(buffer.dtype)).line


def buffer_bytes(buffer: Buffer) -> int:
    """Bytes of a buffer of constant shape."""
    return prod(int(extent) for extent in buffer.shape) * item_bytes(str(buffer.dtype))


def is_large_map(buffer: Buffer) -> bool:
    """Whether it is a blocked feature map that does not stay in the caches."""
    return len(buffer.shape) == MAP_RANK and buffer_bytes(buffer) >= MIN_PREFETCHED_BYTES
