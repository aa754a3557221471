"""A copy of a concat's parts as one loop over the addresses of their blocks.

A stage that reads a concat asks, for each block of channels, which part has it. Unrolled, so that
each block knows its part, DenseNet-201's stages were up to 60 copies: most of their kernels' code,
and of the time that these took to compile. The copies differ in nothing but an address:

    for block, pixel: pad[block, pixel] = block < 4 ? a[block, pixel] : b[block - 4, pixel]

    at[0] = &a[0]; ..; at[4] = &b[0]; ..
    for block: part = at[block]; for pixel: pad[block, pixel] = part[pixel]
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, PointerType, PrimType, TensorLoad
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer
from tvm.tirx import Bind, BufferStore, DeclBuffer, Evaluate, For, ForKind, IntImm, SeqStmt, Stmt

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.tir.affine import is_call, store_of, uses
from tvm_neocpu.topi.tir.loop_nests import innermost_block, loops_of
from tvm_neocpu.topi.tir.rewrite_loops import (
    opaque,
    over_body,
    rewrite_loops,
    with_body,
    without_mark,
)

PARTS_KEY = "neocpu.parts"
# TVM keeps up to 1 KiB of a function's own data on the stack.
MAX_BLOCKS = 128
_IF_THEN_ELSE = "prim.if_then_else"
# builtin::TVMStructFieldKind::kTVMFFIAnyUnionValue
_VALUE = 15


def copy_by_address(sch: Schedule, blocks: LoopRV) -> None:
    """Mark the loop over all blocks of a concat's parts, in a stage that copies them.

    :func:`parts_by_address` acts once all is scheduled.
    """
    sch.annotate(blocks, PARTS_KEY, 1)


def parts_by_address(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The scheduled function, its marked loops over addresses instead of parts.

    A loop whose parts have no addresses of their own is unrolled: one of its inner loops runs over
    images, which lie apart by another stride in each part.
    """

    def over_loop(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        if PARTS_KEY not in loop.annotations:
            return with_body(loop, body)
        unmarked = without_mark(loop, PARTS_KEY, body)
        choice = _choice_in(unmarked)
        if choice is None:
            return For(
                loop.loop_var, loop.min, loop.extent, ForKind.UNROLLED, body, None, unmarked.annotations
            )
        return _over_addresses(unmarked, choice)

    return rewrite_loops(func, over_loop)


@dataclass(frozen=True)
class _Choice:
    """The choice of a part in the value that a ``block`` stores; ``loads`` are of the parts.

    ``ends`` are the blocks with which the parts end, but for the last part.
    """

    block: SBlockRealize
    store: BufferStore
    value: Expr
    loads: tuple[TensorLoad, ...]
    ends: tuple[int, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        return (0, *self.ends)


def _choice_in(loop: For) -> _Choice | None:
    """The choice that a loop over blocks makes; ``None`` where its parts have no addresses."""
    block = innermost_block(loop.body)
    if block is None or not isinstance(block.block.body, BufferStore):
        return None
    if block.block.alloc_buffers or not isinstance(block.predicate, IntImm):
        return None
    store = store_of(block)
    found: list[_Choice] = []

    def look_at(call: Call) -> None:
        loads, ends = _parts(call, loop.loop_var)
        if loads and (not found or len(loads) > len(found[0].loads)):
            found[:] = [_Choice(block, store, call, loads, ends)]

    tvm_ffi.structural_walk(store.value, (Call, look_at))
    return found[0] if found and _differ_in_address(found[0], loop) else None


def _parts(value: Expr, block: tirx.Var) -> tuple[tuple[TensorLoad, ...], tuple[int, ...]]:
    """``block < 4 ? a[..] : block < 8 ? b[..] : c[..]`` -> (a[..], b[..], c[..]), (4, 8).

    Nothing for other values.
    """
    loads, ends = [], []
    while is_call(value, _IF_THEN_ELSE):
        test, part, value = value.args
        is_end = isinstance(test, tirx.LT) and test.a.same_as(block) and isinstance(test.b, IntImm)
        if not is_end or not isinstance(part, TensorLoad):
            return (), ()
        loads.append(part)
        ends.append(int(test.b))
    return ((*loads, value), tuple(ends)) if isinstance(value, TensorLoad) else ((), ())


def _differ_in_address(choice: _Choice, loop: For) -> bool:
    """Whether the parts are read at the same pixel, each at its own block, of one image."""
    analyzer, block = Analyzer(), loop.loop_var
    image, _, *pixel = choice.loads[0].indices
    extents = choice.loads[0].source.shape[2:]
    inner = [each.loop_var for each in loops_of(loop.body)]
    if any(uses(image, var) for var in (block, *inner)) or any(uses(at, block) for at in pixel):
        return False
    for load, start in zip(choice.loads, choice.starts, strict=True):
        own_image, own_block, *own_pixel = load.indices
        if load.source.strides or not tvm_ffi.structural_equal(load.source.shape[2:], extents):
            return False
        if not tvm_ffi.structural_equal([own_image, *own_pixel], [image, *pixel]):
            return False
        if not analyzer.can_prove_equal(own_block, block - start):
            return False
    return True


def _over_addresses(loop: For, choice: _Choice) -> Stmt:
    """The loop over the addresses of its blocks, behind the stores of these."""
    count, (image, *_) = int(loop.extent), choice.loads[0].indices
    first = choice.loads[0].source
    void = PointerType(PrimType("void"))
    addresses = tirx.Var("part_addresses", void)
    part = tirx.decl_buffer(first.shape[2:], first.dtype, name="part")
    origin = [tirx.const(0, "int64")] * len(part.shape)
    ends = (*choice.ends, count)
    stores = [
        Evaluate(tirx.tvm_struct_set(addresses, at, _VALUE, tirx.address_of(load.source[place])))
        for load, start, end in zip(choice.loads, choice.starts, ends, strict=True)
        for at in range(start, end)
        for place in [(image, at - start, *origin)]
    ]
    pixel = part[tuple(choice.loads[0].indices[2:])]
    value = tvm_ffi.structural_map(
        choice.store.value, (Call, lambda call: pixel if call.same_as(choice.value) else call)
    )
    copy = BufferStore(choice.store.buffer, value, choice.store.indices)
    address = tirx.tvm_struct_get(addresses, loop.loop_var, _VALUE, void)
    body = SeqStmt([DeclBuffer(part, data=address), _with_block(loop.body, choice.block, copy)])
    table = Bind(addresses, tirx.tvm_stack_alloca("tvm_ffi_any", count))
    return opaque("parts", SeqStmt([table, *stores, with_body(loop, body)]))


def _with_block(stmt: Stmt, block: SBlockRealize, store: BufferStore) -> Stmt:
    """The statement with another store in the place of a block."""
    if stmt.same_as(block):
        return opaque(str(block.block.name_hint), store)
    return over_body(stmt, lambda inside: _with_block(inside, block, store))
