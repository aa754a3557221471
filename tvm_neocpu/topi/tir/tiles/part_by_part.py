"""A reduction in parts: all tiles of a chunk walk one part of it before the next.

A tile walks its whole panel of weights. One of 1024 channels x 16 lanes is 64 KiB: every tile takes
it from L2 anew. A quarter of it stays in L1, and a quarter of the pixels' channels in L2, while all
tiles walk them; between two parts a tile's sums lie in memory.

    for o, t:                             for part in range(parts - 1):
        tile = 0                              for o, t:
        for part, tap: tile += ..      ->         tile = part == 0 ? 0 : sums[o, t]
        out[o, t] = tile                          for tap: tile += ..
                                                  sums[o, t] = tile
                                          for o, t:
                                              tile = sums[o, t]
                                              for tap: tile += ..
                                              out[o, t] = tile
"""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import Buffer, BufferLoad, BufferRegion, BufferStore, For, IfThenElse, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.tir.loops.affine import contains, replaced, uses
from tvm_neocpu.topi.tir.loops.loop_nests import innermost_block
from tvm_neocpu.topi.tir.loops.rewrite_loops import (
    block_with,
    over_body,
    rewrite_loops,
    with_body,
    without_mark,
)

CHUNK_KEY, PART_KEY = "neocpu.chunk_of_parts", "neocpu.part"


def walk_part_by_part(sch: Schedule, chunk: LoopRV, part: LoopRV) -> None:
    """Mark the loop over chunks and that over parts; :func:`walk_parts` acts once all is done."""
    sch.annotate(chunk, CHUNK_KEY, 1)
    sch.annotate(part, PART_KEY, 1)


def walk_parts(func: tirx.PrimFunc, cpu: Cpu) -> tirx.PrimFunc:
    """The scheduled function with the loop over parts outside of that over tiles; marks go."""
    added: list[Buffer] = []

    def over_chunk(loop: For, body: Stmt, _: tuple[For, ...]) -> Stmt:
        if CHUNK_KEY not in loop.annotations:
            return with_body(loop, body)
        nests = list(body) if isinstance(body, SeqStmt) else [body]
        walked = [nest for each in nests for nest in _part_by_part(each, added)]
        return without_mark(loop, CHUNK_KEY, SeqStmt(walked))

    rewritten = rewrite_loops(func, over_chunk)
    if not added:
        return func
    root = rewritten.body
    buffers = [*root.block.alloc_buffers, *added]
    return rewritten.with_body(block_with(root, root.block.body, buffers))


def _part_by_part(nest: Stmt, buffers: list[Buffer]) -> list[Stmt]:
    """The nests in place of one that has a loop over parts; any other stays.

    What they allocate is added to ``buffers``.
    """
    if not contains(nest, For, lambda loop: PART_KEY in loop.annotations):
        return [nest]
    zero, part, store = _tile(nest)
    block = innermost_block(zero)
    assert block is not None, "a tile begins with a block of zeros"
    tile = block.block.writes[0].source
    held = tirx.decl_buffer(tile.shape, tile.dtype, name=f"{tile.name}_sums", layout=None)
    # A buffer that two nests share would be as large as what both touch, and no register.
    other = tirx.decl_buffer(
        tile.shape, tile.dtype, name=f"{tile.name}_last", scope=tile.scope(), layout=None
    )
    buffers += [held, other]
    load, spill = _copied(zero, tile, held), _copied(zero, held, tile)
    count, walked = int(part.extent), _not_reduced(part.body, part.loop_var)
    last = {part.loop_var: tirx.const(count - 1, str(part.loop_var.ty.dtype))}
    whole = _with_tile(nest, [load, replaced(walked, last), *store])
    behind = replaced(whole, {tile: other})
    if count == 2:
        only = {part.loop_var: tirx.const(0, str(part.loop_var.ty.dtype))}
        return [_with_tile(nest, [zero, replaced(walked, only), spill]), behind]
    begin = IfThenElse(part.loop_var == 0, zero, load)
    before = _with_tile(nest, [begin, walked, spill])
    return [For(part.loop_var, part.min, part.extent - 1, part.kind, before), behind]


def _tile(nest: Stmt) -> tuple[Stmt, For, list[Stmt]]:
    """(zeros, the loop over parts, what stores the sums) of a register tile."""
    found: list[tuple[Stmt, For, list[Stmt]]] = []

    def look(stmt: Stmt) -> Stmt:
        if _is_tile(stmt):
            zero, part, *store = list(stmt)
            found.append((zero, part, store))
            return stmt
        return over_body(stmt, look)

    look(nest)
    assert len(found) == 1, "a reduction in parts is one nest"
    return found[0]


def _is_tile(stmt: Stmt) -> bool:
    return isinstance(stmt, SeqStmt) and any(
        isinstance(each, For) and PART_KEY in each.annotations for each in stmt
    )


def _with_tile(nest: Stmt, tile: list[Stmt]) -> Stmt:
    """The nest around another tile."""
    return SeqStmt(tile) if _is_tile(nest) else over_body(nest, lambda s: _with_tile(s, tile))


def _not_reduced(stmt: Stmt, part: tirx.Var) -> Stmt:
    """The nest, whose blocks count parts as they count tiles: as their first axis.

    TVM allocates what a block reduces into outside of all loops that it reduces over.
    """
    if not isinstance(stmt, SBlockRealize):
        return over_body(stmt, lambda inside: _not_reduced(inside, part))
    block = stmt.block
    pairs = list(zip(block.iter_vars, stmt.iter_values, strict=True))
    of_part = [(_spatial(axis), value) for axis, value in pairs if uses(value, part)]
    axes, values = zip(*of_part, *((a, v) for a, v in pairs if not uses(v, part)), strict=True)
    same = block.reads, block.writes, block.name_hint, block.body, block.init
    return SBlockRealize(values, stmt.predicate, SBlock(axes, *same))


def _spatial(axis: tirx.IterVar) -> tirx.IterVar:
    return tirx.IterVar(axis.dom, axis.var, tirx.IterVar.DataPar)


def _copied(zero: Stmt, to: Buffer, source: Buffer) -> Stmt:
    """The nest that fills a tile with zeros, with a copy between two buffers in their place."""
    if not isinstance(zero, SBlockRealize):
        return over_body(zero, lambda stmt: _copied(stmt, to, source))
    block = zero.block
    region = block.writes[0].region
    index = [extent.min for extent in region]
    copy = SBlock(
        block.iter_vars,
        [BufferRegion(source, region)],
        [BufferRegion(to, region)],
        f"{to.name}_from_{source.name}",
        BufferStore(to, BufferLoad(source, index), index),
    )
    return SBlockRealize(zero.iter_values, zero.predicate, copy)
