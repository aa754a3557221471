"""One layer of a group as the body of its template's parallel loop: a chunk, to be placed anywhere.

    parallel for chunk in range(n): conv2d(chunk)      ->      conv2d(any expression)

The layer is scheduled by its own template, with chunks as the group wants them, and keeps its
epilogue and its full-size parameters. What it hands to the next layer lies in a small buffer of the
group instead of a feature map: its rows begin at a row that the group knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import Buffer, BufferStore, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.schedule_function import schedule_as
from tvm_neocpu.topi.tir.loops.affine import replaced
from tvm_neocpu.topi.tir.loops.rewrite_loops import block_with
from tvm_neocpu.topi.tir.order import Rewrite

# From the index in a feature map (n, block, row, column, lane) to the index in a group's buffer.
Place = Callable[[Sequence[Expr]], Sequence[Expr]]


@dataclass(frozen=True)
class Window:
    """Where a group keeps a feature map: a flat buffer, and the element's place in it."""

    buffer: Buffer
    place: Place


@dataclass(frozen=True)
class Chunk:
    """The body of a layer's parallel loop, which ran over ``axes``: images, blocks, rows."""

    params: tuple[tirx.Var, ...]
    body: Stmt
    axes: tuple[tirx.Var, ...]

    def at(self, index: Sequence[Expr], windows: Mapping[tirx.Var, Window]) -> Stmt:
        """One pass, with windows instead of some of the parameters."""
        places = {
            axis: place.astype(str(axis.ty.dtype))
            for axis, place in zip(self.axes, index, strict=True)
        }

        def window_of(buffer: Buffer) -> Window | None:
            return next((w for own, w in windows.items() if own.same_as(buffer)), None)

        def load(old: TensorLoad) -> Expr:
            window = window_of(old.source)
            return old if window is None else window.buffer[tuple(window.place(old.indices))]

        def store(old: BufferStore) -> Stmt:
            window = window_of(old.buffer)
            if window is None:
                return old
            return BufferStore(window.buffer, old.value, window.place(old.indices))

        return tvm_ffi.structural_map(
            replaced(self.body, places),
            [(TensorLoad, load), (BufferStore, store), (SBlock, _without_regions)],
        )


def cut_chunk(
    func: tirx.PrimFunc,
    config: Config,
    extents: Sequence[int],
    rewrites: Sequence[Rewrite],
    cpu: Cpu,
) -> Chunk | None:
    """A layer's chunk under a config whose parallel loop runs over axes of these ``extents``.

    ``None`` where more than one loop nest, or another loop, computes the layer.
    """
    return chunk_of(schedule_as(func, config, cpu), extents, rewrites, cpu)


def chunk_of(
    scheduled: tirx.PrimFunc, extents: Sequence[int], rewrites: Sequence[Rewrite], cpu: Cpu
) -> Chunk | None:
    """The chunk of a scheduled function whose loops are not rewritten yet, as :func:`cut_chunk`."""
    loop = scheduled.body.block.body
    if not isinstance(loop, For) or int(loop.extent) != prod(extents):
        return None
    axes, nest = _over_axes(loop, extents)
    rewritten = scheduled.with_body(block_with(scheduled.body, nest))
    for rewrite in rewrites:
        rewritten = rewrite(rewritten, cpu)
    root = rewritten.body.block
    ends: list[Stmt] = []
    body = root.body
    while isinstance(body, For | SeqStmt):
        if isinstance(body, SeqStmt):
            # Outlining puts a statement behind the loop, which has to follow each pass now.
            body, *ends = body
        elif any(body.loop_var.same_as(axis) for axis in axes):
            body = body.body
        else:
            break
    block = SBlock([], [], [], "chunk", SeqStmt([body, *ends]), None, root.alloc_buffers)
    return Chunk(tuple(rewritten.params), SBlockRealize([], True, block), axes)


def _over_axes(loop: For, extents: Sequence[int]) -> tuple[tuple[tirx.Var, ...], Stmt]:
    """The loop as one for each axis, so that TVM knows their ranges and divides nothing.

    # for i in range(6): f(i // 3, i % 3)  ->  for a in range(2): for b in range(3): f(a, b)
    """
    dtype = str(loop.loop_var.ty.dtype)
    axes = tuple(tirx.Var(f"axis{at}", dtype) for at in range(len(extents)))
    index: Expr = tirx.const(0, dtype)
    for axis, extent in zip(axes, extents, strict=True):
        index = index * extent + axis
    nest: Stmt = replaced(loop.body, {loop.loop_var: index})
    # The innermost one is outlined: its body becomes a function.
    kind = ForKind.PARALLEL
    for axis, extent in zip(reversed(axes), reversed(extents), strict=True):
        nest = For(axis, tirx.const(0, dtype), tirx.const(extent, dtype), kind, nest)
        kind = ForKind.SERIAL
    return axes, nest


def _without_regions(block: SBlock) -> SBlock:
    """Nobody reads an opaque block's regions, and they would name the feature maps."""
    return SBlock(
        [], [], [], block.name_hint, block.body, None, block.alloc_buffers, block.match_buffers
    )
