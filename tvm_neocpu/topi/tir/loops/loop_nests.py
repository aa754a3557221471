"""Looking at scheduled loop nests: their loops, the block inside, what it reads and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm import tirx
from tvm.ir import Expr, Range
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import Buffer, BufferRegion, For, SeqStmt, Stmt

from tvm_neocpu.topi.tir.loops.affine import bounds, uses

REDUCE_AXIS = 2  # tirx.IterVar.CommReduce


def innermost_block(stmt: Stmt) -> SBlockRealize | None:
    """The block at the end of a loop nest, behind requests."""
    while isinstance(stmt, For | SeqStmt):
        stmt = stmt.body if isinstance(stmt, For) else list(stmt)[-1]
    return stmt if isinstance(stmt, SBlockRealize) else None


def loops_of(nest: Stmt) -> list[For]:
    """Loops from the outermost to those around :func:`innermost_block`."""
    loops = []
    while isinstance(nest, For | SeqStmt):
        if isinstance(nest, For):
            loops.append(nest)
        nest = nest.body if isinstance(nest, For) else list(nest)[-1]
    return loops


def analyzer_of(loops: Iterable[For]) -> Analyzer:
    """What knows the extents of loops from 0."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, bounds(loop.loop_var, 0, int(loop.extent)))
    return analyzer


def position(loops: Sequence[For]) -> tuple[Expr, int]:
    """(how many passes through nested loops came before this one, how many passes there are)."""
    position: Expr = tirx.const(0, "int32")
    count = 1
    for loop in loops:
        position = position * int(loop.extent) + loop.loop_var
        count *= int(loop.extent)
    return position, count


def corner(
    update: SBlockRealize, region: Sequence[Range], loops: Sequence[For], at_end: bool
) -> tuple[Expr, ...]:
    """The element where a block's region begins in the first or the last pass through loops."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(
            loop.loop_var,
            tirx.const(int(loop.extent) - 1 if at_end else 0, str(loop.loop_var.ty.dtype)),
        )
    for axis, value in zip(update.block.iter_vars, update.iter_values, strict=True):
        analyzer.bind(axis.var, analyzer.simplify(value))
    return tuple(analyzer.simplify(extent.min) for extent in region)


def as_run(index: Sequence[Expr], feature_map: Buffer) -> tuple[Expr, ...]:
    """The same element, counted through the rows: (n, block, 0, y * W + x, channel)."""
    batch, block, y, x, *channel = index
    pixel = Analyzer().simplify(y * int(feature_map.shape[3]) + x)
    return (batch, block, tirx.const(0, "int32"), pixel, *channel)


def weight_read(update: SBlockRealize) -> BufferRegion | None:
    """What a multiply-add reads anew for each lane: acc[.., c] += data[..] * weight[.., c]."""
    return next(iter(_reads(update, by_lane=True)), None)


def data_read(update: SBlockRealize) -> BufferRegion | None:
    """What a multiply-add broadcasts to all lanes: acc[.., c] += data[..] * weight[.., c]."""
    return next(iter(_reads(update, by_lane=False)), None)


def _reads(update: SBlockRealize, by_lane: bool) -> list[BufferRegion]:
    """The operands that the lane's axis is part of the index of, or those that it is not."""
    block = update.block
    spatial = [axis.var for axis in block.iter_vars if int(axis.iter_type) != REDUCE_AXIS]
    if not spatial or not block.writes:
        return []
    lane, accumulator = spatial[-1], block.writes[0].source
    operands = [read for read in block.reads if not read.source.same_as(accumulator)]
    return [read for read in operands if _uses(read, lane) == by_lane]


def _uses(read: BufferRegion, var: tirx.Var) -> bool:
    return any(uses(extent.min, var) for extent in read.region)
