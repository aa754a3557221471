"""A convolution and its pool as one function: their own chunks in a loop (:mod:`.pooled_conv`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import Expr, Range, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import AllocBuffer, Bind, For, ForKind, SeqStmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import RowWindow
from tvm_neocpu.topi.fused_block.chunks import Chunk, Window, chunk_of, cut_chunk
from tvm_neocpu.topi.fused_block.pooled_conv import PooledConv
from tvm_neocpu.topi.fused_block.template import FLOPS, INDEX, LAYERS, MEMBERS, key_of
from tvm_neocpu.topi.schedule_function import schedule_loops
from tvm_neocpu.topi.tir.instructions.widest_vectors import widest_vectors
from tvm_neocpu.topi.tir.loops.affine import replaced
from tvm_neocpu.topi.tir.loops.rewrite_loops import counted_loop, opaque
from tvm_neocpu.topi.tir.order import FIRST_MEMBER_REWRITES, POOL_REWRITES


@dataclass(frozen=True)
class Pool:
    """A pool's function cut into rows of blocks, the parameter that it reads, and what it reads."""

    chunk: Chunk
    reads: int
    window: RowWindow
    height: int


def pool_of(func: tirx.PrimFunc, reads: int, cpu: Cpu) -> Pool | None:
    """The function as a pool of its parameter ``reads``, a blocked feature map.

    ``None`` where it does not compute one row of a block after the other from a window of rows.
    """
    data, output = func.params[reads], func.params[-1]
    shapes = [[int(extent) for extent in param.shape] for param in (data, output)]
    if any(len(shape) != 5 for shape in shapes):
        return None
    # On several cores rows come first (`steps.rows_outside`), and bands need (n, o, y).
    scheduled = schedule_loops(func, cpu.with_cores(1))
    if scheduled is None:
        return None
    batch, blocks, height = shapes[1][:3]
    chunk = chunk_of(scheduled, (batch, blocks, height), POOL_REWRITES, cpu)
    window = None if chunk is None else _rows_read(chunk, chunk.params[reads], batch)
    if chunk is None or window is None:
        return None
    return Pool(chunk, reads, window, height)


def pooled_function(
    group: PooledConv, conv: tirx.PrimFunc, pool: Pool, cpu: Cpu
) -> tirx.PrimFunc | None:
    """The scheduled function of the convolution's operands, the pool's others, and its output.

    ``group`` is of this pool's window and height. ``None`` where the convolution's schedule has
    more than one loop nest, as one with a prologue may have.
    """
    layer = group.layer
    extents = (layer.workload.batch, group.chunks)
    first = cut_chunk(conv, layer.config, extents, FIRST_MEMBER_REWRITES, cpu)
    if first is None:
        return None
    operands = [param for at, param in enumerate(pool.chunk.params) if at != pool.reads]
    func = tirx.PrimFunc([*first.params[:-1], *operands], _loops(group, first, pool))
    notes = {
        LAYERS: f"{layer.workload} -> pool",
        FLOPS: layer.workload.flops,
        MEMBERS: key_of(((layer.workload, layer.config),)),
    }
    return widest_vectors(func, cpu).with_attrs({**dict(conv.attrs or {}), **notes})


def _loops(group: PooledConv, first: Chunk, pool: Pool) -> SBlockRealize:
    """# parallel for trip: for step: (convolution -> ring; for row, block: pool of ring)."""
    window, last_row = group.window, group.layer.workload.out_height - 1
    names = ("trip", "step", "row", "block", "chunk", "done", "count")
    trip, step, row, block, at, done, count = (tirx.Var(name, INDEX) for name in names)
    image, band = tirx.floordiv(trip, group.bands), tirx.floormod(trip, group.bands)
    begin = band * group.rows
    end = tirx.min(begin + group.rows, group.height)
    first_chunk = tirx.floordiv(tirx.max(begin * window.stride - window.before, 0), group.step)
    read = (end - 1) * window.stride - window.before + window.taps - 1
    last_chunk = tirx.floordiv(tirx.min(read, last_row), group.step)

    ring, source = _ring(group, at), pool.chunk.params[pool.reads]
    conv = first.at((image, at), {first.params[-1]: ring})
    pooled = pool.chunk.at((image, block, done + row), {source: _read_ring(group, ring)})
    of_blocks = counted_loop(block, group.ring_shape[0], pooled)
    body = [
        Bind(at, first_chunk + step),
        conv,
        Bind(done, tirx.max(_ready(group, at), begin)),
        Bind(count, tirx.max(tirx.min(_ready(group, at + 1), end) - done, 0)),
        counted_loop(row, count, of_blocks),
    ]
    steps = counted_loop(step, last_chunk - first_chunk + 1, SeqStmt(body))
    kind = ForKind.PARALLEL if group.trips > 1 else ForKind.SERIAL
    # A buffer of the block would be allocated in the innermost loop around all of its uses, which
    # are the steps, and lose the ring's rows from one step to the next.
    band_block = opaque("band", SeqStmt([AllocBuffer(ring.buffer), steps]))
    return opaque("root", counted_loop(trip, group.trips, band_block, kind))


def _ready(group: PooledConv, chunks: Expr) -> Expr:
    """:meth:`PooledConv.ready` of a variable."""
    rows, window = chunks * group.step, group.window
    complete = tirx.floordiv(rows + window.before - window.taps, window.stride) + 1
    whole = rows >= group.layer.workload.out_height
    return tirx.Select(whole, tirx.const(group.height, INDEX), tirx.max(complete, 0))


def _ring(group: PooledConv, chunk: Expr) -> Window:
    """Where a chunk of the convolution puts its rows: into its slot."""
    blocks, rows, width, lanes = group.ring_shape
    shift = (tirx.floormod(chunk, group.slots) - chunk) * group.step

    def place(index: Sequence[Expr]) -> Sequence[Expr]:
        _, block, row, column, lane = (axis.astype(INDEX) for axis in index)
        return [((block * rows + (row + shift)) * width + column) * lanes + lane]

    size = blocks * rows * width * lanes
    return Window(tirx.decl_buffer([size], group.layer.workload.types.output, name="ring"), place)


def _read_ring(group: PooledConv, ring: Window) -> Window:
    """The same rows, wherever they lie."""
    _, rows, width, lanes = group.ring_shape

    def place(index: Sequence[Expr]) -> Sequence[Expr]:
        _, block, row, column, lane = (axis.astype(INDEX) for axis in index)
        line = block * rows + tirx.floormod(row, rows)
        return [(line * width + column) * lanes + lane]

    return Window(ring.buffer, place)


def _rows_read(chunk: Chunk, data: tirx.Buffer, batch: int) -> RowWindow | None:
    """The rows of a parameter that a chunk reads, of its own image; ``None`` if no fixed window."""
    image, _, row = chunk.axes
    analyzer = Analyzer()
    indices: list[Sequence[Expr]] = []

    def bind(loop: For) -> None:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))

    def load(found: TensorLoad) -> None:
        if found.source.same_as(data):
            indices.append(found.indices)

    tvm_ffi.structural_walk(chunk.body, [(For, bind), (TensorLoad, load)])
    own_image = all(batch == 1 or index[0].same_as(image) for index in indices)
    if not indices or not own_image:
        return None
    spans = []
    for at in range(3):
        value = tirx.const(at, str(row.ty.dtype))
        found = [analyzer.const_int_bound(replaced(index[2], {row: value})) for index in indices]
        spans.append((min(f.min_value for f in found), max(f.max_value for f in found)))
    low, high = spans[0]
    stride = spans[1][0] - low
    moves_evenly = all(spans[at] == (low + at * stride, high + at * stride) for at in range(3))
    if stride < 1 or low > 0 or not moves_evenly:
        return None
    return RowWindow(high - low + 1, stride, -low)
