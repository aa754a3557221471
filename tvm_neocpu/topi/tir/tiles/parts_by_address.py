"""A copy of a concat's parts as one loop over the addresses of their blocks.

A stage that reads a concat asks, for each block of channels, which part has it. Unrolled, so that
each block knows its part, DenseNet-201's stages were up to 60 copies: most of their kernels' code,
and of the time that these took to compile. The copies differ in nothing but an address:

    for block, pixel: pad[block, pixel] = block < 4 ? a[block, pixel] : b[block - 4, pixel]

    at[0] = &a[0]; ..; at[4] = &b[0]; ..
    for block: part = at[block]; for pixel: pad[block, pixel] = part[pixel]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr, PointerType, PrimType, Range, TensorLoad
from tvm.s_tir import SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer
from tvm.tirx import (
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IntImm,
    SeqStmt,
    Stmt,
)
from tvm_ffi.structural import WalkResult

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.loops.affine import IF_THEN_ELSE, is_call, store_of, uses
from tvm_neocpu.topi.tir.loops.loop_nests import innermost_block, loops_of
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    opaque,
    over_body,
    rewrite_loops,
    with_body,
    without_mark,
)

PARTS_KEY = "neocpu.parts"
# TVM keeps up to 1 KiB of a function's own data on the stack.
MAX_BLOCKS = 128
# builtin::TVMStructFieldKind::kTVMFFIAnyUnionValue
_VALUE = 15


def copy_by_address(sch: Schedule, blocks: LoopRV, rows: int = 1) -> None:
    """Mark the loop over all blocks of a concat's parts, in a stage that copies them; of more than
    MAX_BLOCKS it stays as it is.

    A parallel loop may run over ``rows`` of each block, too. :func:`parts_by_address` acts once all
    is scheduled.
    """
    if int(sch.get(blocks).extent) <= MAX_BLOCKS * rows:
        sch.annotate(blocks, PARTS_KEY, rows)


def parts_by_address(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The scheduled function, its marked loops over addresses instead of parts.

    Parts have no addresses of their own where such a loop, or one inside it, runs over images too:
    these lie apart by another stride in each part. The loop is unrolled then if it is serial.
    """

    params = func.params[:]

    def over_loop(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        if PARTS_KEY not in loop.annotations:
            return with_body(loop, body)
        rows = int(loop.annotations[PARTS_KEY])
        unmarked = without_mark(loop, PARTS_KEY, body)
        choice = _choice_in(unmarked, rows)
        if choice is not None and all(_is_given(load, params) for load in choice.loads):
            return _over_addresses(unmarked, choice)
        return _unrolled(unmarked) if loop.kind == ForKind.SERIAL else unmarked

    return rewrite_loops(func, over_loop)


@dataclass(frozen=True)
class _Choice:
    """The choice of a part in the value that a ``block`` stores; ``loads`` are of the parts.

    ``at`` is the number of the block of channels, ``pixel`` the indices behind it. ``ends`` are the
    blocks with which the parts end, but for the last part.
    """

    block: SBlockRealize
    store: BufferStore
    at: Expr
    pixel: tuple[Expr, ...]
    value: Expr
    loads: tuple[TensorLoad, ...]
    ends: tuple[int, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        return (0, *self.ends)


def _is_given(load: TensorLoad, params: Sequence[tirx.Var]) -> bool:
    """Whether it reads a parameter: TVM may reuse memory of its own that is read by address."""
    source = load.source
    return any(source.same_as(param) for param in params)


def _choice_in(loop: For, rows: int) -> _Choice | None:
    """The choice that a loop over blocks makes; ``None`` where its parts have no addresses."""
    block = innermost_block(_inside(loop))
    if block is None or not isinstance(block.block.body, BufferStore):
        return None
    if block.block.alloc_buffers or not isinstance(block.predicate, IntImm):
        return None
    store, var = store_of(block), loop.loop_var
    at = var if rows == 1 else var // rows
    found: list[_Choice] = []

    def look_at(call: Call) -> WalkResult:
        loads, ends = _parts(call, var, rows)
        if not loads:
            return WalkResult.ADVANCE
        if not found or len(loads) > len(found[0].loads):
            _, _, row, *rest = loads[0].indices
            pixel = (row if rows == 1 else var % rows, *rest)
            found[:] = [_Choice(block, store, at, pixel, call, loads, ends)]
        return WalkResult.SKIP  # inside is the same choice without its first parts

    tvm_ffi.structural_walk(store.value, (Call, look_at), order="pre")
    return found[0] if found and _differ_in_address(found[0], loop, rows) else None


def _parts(value: Expr, var: tirx.Var, rows: int) -> tuple[tuple[TensorLoad, ...], tuple[int, ...]]:
    """``var < 4 ? a[..] : var < 8 ? b[..] : c[..]`` -> (a[..], b[..], c[..]), (4, 8).

    Nothing for other values. The ends are divided by ``rows``.
    """
    loads, ends = [], []
    while is_call(value, IF_THEN_ELSE):
        test, part, value = value.args[:]
        is_end = isinstance(test, tirx.LT) and test.a.same_as(var) and isinstance(test.b, IntImm)
        if not is_end or int(test.b) % rows or not isinstance(part, TensorLoad):
            return (), ()
        loads.append(part)
        ends.append(int(test.b) // rows)
    return ((*loads, value), tuple(ends)) if isinstance(value, TensorLoad) else ((), ())


def _differ_in_address(choice: _Choice, loop: For, rows: int) -> bool:
    """Whether the parts are read at the same pixel, each at its own block, of one image."""
    image, pixel = choice.loads[0].indices[0], choice.pixel
    inner = [each.loop_var for each in loops_of(_inside(loop))]
    if any(uses(image, each) for each in (loop.loop_var, *inner)):
        return False
    if rows == 1 and any(uses(index, loop.loop_var) for index in pixel):
        return False
    dtype = str(loop.loop_var.ty.dtype)
    sizes = [int(load.source.shape[1]) for load in choice.loads]
    if (*accumulate(sizes[:-1]),) != choice.ends:
        return False
    for load, start, size in zip(choice.loads, choice.starts, sizes, strict=True):
        if load.source.strides or _extents(load) != _extents(choice.loads[0]):
            return False
        # Indices are as simple as they get inside of the part.
        analyzer = Analyzer()
        bounds = (tirx.const(each * rows, dtype) for each in (start, size))
        analyzer.bind(loop.loop_var, Range.from_min_extent(*bounds))
        wanted = (image, choice.at - start, *pixel)
        if not all(map(analyzer.can_prove_equal, load.indices, wanted)):
            return False
    return True


def _over_addresses(loop: For, choice: _Choice) -> Stmt:
    """The loop over the addresses of its blocks, behind the stores of these."""
    image, pixel = choice.loads[0].indices[0], choice.pixel
    first = choice.loads[0].source
    void = PointerType(PrimType("void"))
    addresses = tirx.Var("part_addresses", void)
    part = tirx.decl_buffer(first.shape[2:], first.dtype, name="part")
    zeros = [tirx.const(0, "int64")] * len(pixel)
    places = [
        (load.source, (image, tirx.const(at, "int64"), *zeros))
        for load in choice.loads
        for at in range(int(load.source.shape[1]))
    ]
    stores = [
        Evaluate(tirx.tvm_struct_set(addresses, at, _VALUE, tirx.address_of(source[place])))
        for at, (source, place) in enumerate(places)
    ]
    element = part[pixel]
    value = tvm_ffi.structural_map(
        choice.store.value, (Call, lambda call: element if call.same_as(choice.value) else call)
    )
    copy = BufferStore(choice.store.buffer, value, choice.store.indices)
    view = DeclBuffer(part, data=tirx.tvm_struct_get(addresses, choice.at, _VALUE, void))
    body = SeqStmt([view, _with_block(_inside(loop), choice.block, copy)])
    outlined = loop.body if isinstance(loop.body, AttrStmt) else None
    table = Bind(addresses, tirx.tvm_stack_alloca("tvm_ffi_any", len(places)))
    copied = with_body(loop, body if outlined is None else over_body(outlined, lambda _: body))
    return opaque("parts", SeqStmt([table, *stores, copied]))


def _extents(load: TensorLoad) -> list[int]:
    """Those of the axes behind the blocks of channels."""
    return [int(extent) for extent in load.source.shape[2:]]


def _inside(loop: For) -> Stmt:
    """A loop's body; that of its outlined part, where it has one."""
    body = loop.body
    return body.body if isinstance(body, AttrStmt) else body


def _with_block(stmt: Stmt, block: SBlockRealize, store: BufferStore) -> Stmt:
    """The statement with another store in the place of a block."""
    if stmt.same_as(block):
        return opaque(str(block.block.name_hint), store)
    return over_body(stmt, lambda inside: _with_block(inside, block, store))


def _unrolled(loop: For) -> For:
    return For(
        loop.loop_var, loop.min, loop.extent, ForKind.UNROLLED, loop.body, None, loop.annotations
    )
