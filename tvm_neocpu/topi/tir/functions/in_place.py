"""A function that writes its result over one of its arguments.

    y[i, j] = max(acc[..] + r[i, j], 0)   ->   r[i, j] = max(acc[..] + r[i, j], 0)

It may where each element is read only by the statement that writes the same one, once. A tile that
overlaps the one before it computes some elements twice, and would add to its own result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym.iter_affine_map import IterMapLevel, detect_iter_map
from tvm.tirx import AttrStmt, BufferStore, BufferType, Evaluate, For, IfThenElse, SeqStmt, Stmt

from tvm_neocpu.topi.tir.loops.affine import is_call, replaced, uses

REQUEST = "tirx.prefetch"


def written_over(func: tirx.PrimFunc, at: int) -> tirx.PrimFunc | None:
    """The function without argument ``at``, which its last argument holds when it begins.

    ``None`` where an element that was written might be read. Needs: the function is scheduled.
    """
    operand, result = func.params[at], func.params[-1]
    if operand.same_as(result) or not _are_alike(operand, result):
        return None
    computing = _without_requests(func.body, operand, result)
    stores, nests = _stores_to(computing, result), list(_nests(computing, result, ()))
    # One that stands where loops were not followed is not among the nests.
    if len(stores) != 1 or len(nests) != 1 or not _writes_once(*nests[0]):
        return None
    if not _reads_what_it_writes(stores[0], operand):
        return None
    if any(uses(_beside_store(computing, result), buffer) for buffer in (operand, result)):
        return None
    params = [param for param in func.params if not param.same_as(operand)]
    body = replaced(_without_requests(func.body, operand), {operand: result})
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)


def _are_alike(one: tirx.Var, other: tirx.Var) -> bool:
    """Whether both are buffers of the same elements."""
    if not (isinstance(one.ty, BufferType) and isinstance(other.ty, BufferType)):
        return False
    plain = not one.strides and not other.strides
    return plain and one.dtype == other.dtype and _equal(one.shape, other.shape)


def _without_requests(body: Stmt, *buffers: tirx.Var) -> Stmt:
    """The body that does not ask for lines of these buffers."""

    def left(evaluated: Evaluate) -> Stmt:
        asks = is_call(evaluated.value, REQUEST) and any(_loads(evaluated, b) for b in buffers)
        return Evaluate(tirx.const(0, "int32")) if asks else evaluated

    return tvm_ffi.structural_map(body, (Evaluate, left))


def _loads(tree: Stmt | Expr, buffer: tirx.Var) -> list[TensorLoad]:
    """Reads of a buffer, and the elements whose addresses are taken."""
    found: list[TensorLoad] = []

    def read(load: TensorLoad) -> None:
        if load.source.same_as(buffer):
            found.append(load)

    tvm_ffi.structural_walk(tree, (TensorLoad, read))
    return found


def _stores_to(body: Stmt, buffer: tirx.Var) -> list[BufferStore]:
    found: list[BufferStore] = []

    def stored(store: BufferStore) -> None:
        if store.buffer.same_as(buffer):
            found.append(store)

    tvm_ffi.structural_walk(body, (BufferStore, stored))
    return found


def _reads_what_it_writes(store: BufferStore, operand: tirx.Var) -> bool:
    """Whether a store reads of the operand the element that it writes, and of its result none."""

    def without(load: TensorLoad) -> Expr:
        return tirx.const(0, load.ty.dtype) if load.source.same_as(operand) else load

    own = _loads(store.value, operand)
    if not own or not all(_equal(load.indices, store.indices) for load in own):
        return False
    rest = tvm_ffi.structural_map(store.value, (TensorLoad, without))
    return not uses(rest, operand) and not uses(rest, store.buffer)


def _beside_store(body: Stmt, buffer: tirx.Var) -> Stmt:
    """All statements but those that store to a buffer; blocks do not say what they access."""

    def without(store: BufferStore) -> Stmt:
        return Evaluate(tirx.const(0, "int32")) if store.buffer.same_as(buffer) else store

    def bare(block: SBlock) -> SBlock:
        rest = block.name_hint, block.body, block.init, block.alloc_buffers
        return SBlock(block.iter_vars, [], [], *rest, block.match_buffers, block.annotations)

    rest = tvm_ffi.structural_map(body, (BufferStore, without))
    return tvm_ffi.structural_map(rest, (SBlock, bare))


_Nest = tuple[BufferStore, tuple[For, ...]]


def _nests(stmt: Stmt, buffer: tirx.Var, loops: tuple[For, ...]) -> Iterator[_Nest]:
    """The stores to a buffer with the loops around, whose variables stand for blocks' axes."""
    if isinstance(stmt, BufferStore):
        if stmt.buffer.same_as(buffer):
            yield stmt, loops
    elif isinstance(stmt, For):
        yield from _nests(stmt.body, buffer, (*loops, stmt))
    elif isinstance(stmt, SeqStmt):
        for part in stmt.seq:
            yield from _nests(part, buffer, loops)
    elif isinstance(stmt, AttrStmt):
        yield from _nests(stmt.body, buffer, loops)
    elif isinstance(stmt, IfThenElse):
        yield from _nests(stmt.then_case, buffer, loops)
    elif isinstance(stmt, SBlockRealize):
        axes = [axis.var for axis in stmt.block.iter_vars]
        values = dict(zip(axes, stmt.iter_values, strict=True))
        for store, around in _nests(stmt.block.body, buffer, loops):
            yield (replaced(store, values) if values else store), around


def _writes_once(store: BufferStore, loops: tuple[For, ...]) -> bool:
    """Whether no two steps of the loops write the same element."""
    if not all(isinstance(loop.extent, tirx.IntImm) for loop in loops):
        return False
    extents = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    found = detect_iter_map(list(store.indices), extents, True, IterMapLevel.Bijective)
    return len(found.indices) > 0


def _equal(one: Sequence[Expr], other: Sequence[Expr]) -> bool:
    pairs = zip(one, other, strict=True)
    return len(one) == len(other) and all(tvm_ffi.structural_equal(a, b) for a, b in pairs)
