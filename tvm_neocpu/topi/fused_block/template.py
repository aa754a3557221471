"""A group of layers as one function: the layers' own chunks in one loop (:mod:`.geometry`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tvm import tirx
from tvm.ir import BaseFunc, Expr
from tvm.s_tir import SBlockRealize, ScheduleError, renew_defs
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, ForKind, IfThenElse, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layer_group import Members
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.chunks import Chunk, Window, cut_chunk
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, depthwise_of
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.image.depth import WINDOWS
from tvm_neocpu.topi.schedule.steps import find_block
from tvm_neocpu.topi.schedule.unchecked import UncheckedSchedule
from tvm_neocpu.topi.schedule_function import anchor_of
from tvm_neocpu.topi.tir.instructions.widest_vectors import widest_vectors
from tvm_neocpu.topi.tir.loops.rewrite_loops import counted_loop, opaque, sequence
from tvm_neocpu.topi.tir.order import (
    FIRST_MEMBER_REWRITES,
    LAST_MEMBER_REWRITES,
    LAST_WEIGHTS_REWRITES,
    MEMBER_REWRITES,
    WEIGHTS_REWRITES,
    Rewrite,
)

# Marks a group's function, which is scheduled already: what it computes, and its operations.
LAYERS, FLOPS, MEMBERS = "neocpu.layers", "neocpu.flops", "neocpu.members"
INDEX = "int64"


@dataclass(frozen=True)
class Layer:
    """The function of a layer as its template computed it: epilogue, no schedule.

    ``reads`` is the position of the parameter that the layer before writes; ``None`` of the first
    layer. The last parameter of a function is its output.
    """

    func: tirx.PrimFunc
    reads: int | None = None


def fused_function(block: FusedBlock, layers: Sequence[Layer], cpu: Cpu) -> tirx.PrimFunc | None:
    """The scheduled function of all layers' operands, in order, the outputs of taps, the last one.

    An expansion with a prologue computes all channels at once: blocks would compute the prologue
    again. ``None`` where a layer's schedule has more than one loop nest even so.
    """
    if not block.course.whole.issuperset(block.taps):
        return None
    ways = (block, replace(block, whole=True))
    return next((func for way in ways if (func := _fused(way, layers, cpu)) is not None), None)


def _fused(block: FusedBlock, layers: Sequence[Layer], cpu: Cpu) -> tirx.PrimFunc | None:
    chunks = []
    kinds = _rewrites(block)
    for step, layer, rewrites in zip(block.steps, layers, kinds, strict=True):
        # What a layer reads inside the group lies in L2, however large its image is.
        near = cpu if layer.reads is None else replace(cpu, l2=max(cpu.l2, step.conv.in_bytes))
        # Equal layers share a function; in the group each has operands of its own.
        chunk = cut_chunk(renew_defs(layer.func), step.member.config, step.extents, rewrites, near)
        if chunk is None:
            return None
        chunks.append(chunk)
    params = [
        param
        for chunk, layer in zip(chunks, layers, strict=True)
        for at, param in enumerate(chunk.params[:-1])
        if at != layer.reads
    ]
    body = _Loops(block, chunks, layers).body()
    outputs = [chunks[at].params[-1] for at in (*block.taps, -1)]
    func = tirx.PrimFunc([*params, *outputs], body)
    workloads = [member.workload for member in block.members]
    notes = {
        LAYERS: " -> ".join(map(str, workloads)),
        FLOPS: sum(workload.flops for workload in workloads),
        MEMBERS: key_of(tuple((each.workload, each.config) for each in block.members)),
    }
    return widest_vectors(func, cpu).with_attrs({**dict(layers[-1].func.attrs or {}), **notes})


def _rewrites(block: FusedBlock) -> list[Sequence[Rewrite]]:
    """Of each layer the rewrites of its chunk.

    Weights of 1x1 layers around a depthwise one are few, those of a stack come from memory.
    """
    inner = len(block.members) - 2
    if block.is_stack:
        return [FIRST_MEMBER_REWRITES, *[WEIGHTS_REWRITES] * inner, LAST_WEIGHTS_REWRITES]
    return [*[MEMBER_REWRITES] * (inner + 1), LAST_MEMBER_REWRITES]


def member_of(func: BaseFunc) -> Member | None:
    """The layer that a template's function computes; ``None`` for any other function.

    And for one that reads several images of a volume side by side: a group works on one image at a
    time. A layer that reads their rows can only be the first of a group, because no layer writes an
    image of that height.
    """
    if not isinstance(func, tirx.PrimFunc):
        return None
    try:
        sch = UncheckedSchedule(func)
        anchor = anchor_of(sch)
    except ScheduleError:
        return None
    if anchor is None or not isinstance(anchor.workload, ConvWorkload):
        return None
    reads_one = find_block(sch, WINDOWS) is None
    return Member(anchor.workload, anchor.config) if reads_one else None


def layers_of(func: tirx.PrimFunc) -> tuple[str, int] | None:
    """(its layers, its operations) of a group's function; ``None`` for any other function."""
    if not func.attrs or LAYERS not in func.attrs:
        return None
    return str(func.attrs[LAYERS]), int(func.attrs[FLOPS])


def members_key(func: tirx.PrimFunc) -> str | None:
    """The :func:`key_of` what a group's function computes; ``None`` for any other function."""
    return str(func.attrs[MEMBERS]) if func.attrs and MEMBERS in func.attrs else None


def key_of(members: Members) -> str:
    """Layers and configs as a text that tells groups apart."""
    return repr(members)


class _Loops:
    """The loops around the chunks of a group."""

    def __init__(self, block: FusedBlock, chunks: Sequence[Chunk], layers: Sequence[Layer]) -> None:
        self._block, self._chunks, self._layers = block, chunks, layers
        self._chunk, self._at = tirx.Var("chunk", INDEX), tirx.Var("band", INDEX)
        run, runs = self._chunk, block.course.runs
        self._image: Expr = tirx.const(0, INDEX)
        if block.members[0].workload.batch > 1:
            self._image, run = tirx.floordiv(self._chunk, runs), tirx.floormod(self._chunk, runs)
        self._first = run * block.bands.run
        self._channels = tirx.Var("channels", INDEX)
        self._windows = [self._window(at) for at in range(len(chunks) - 1)]

    def body(self) -> SBlockRealize:
        """# parallel for chunk: allocate rings; for band: tiles of each layer, in order.

        Each run allocates what lies between layers for itself: a core finds its lines in its own
        cache, where a workspace in the network's arena would have been written by another core.
        """
        block = self._block
        run: Stmt = self._band()
        buffers = [window.buffer for window in self._windows]
        if block.bands.run > 1:
            bands = tirx.const(block.bands.run, INDEX)
            if block.course.count % block.bands.run:
                bands = tirx.min(bands, block.course.count - self._first)
            # TVM moves a buffer into the innermost loop around all its uses. This use keeps it
            # outside of the loop over bands, which would lose the rows of the band before.
            zero = tirx.const(0, INDEX)
            uses = [BufferStore(b, tirx.const(0, str(b.dtype)), [zero]) for b in buffers]
            run = SeqStmt([*uses, counted_loop(self._at, bands, run)])
        kind = ForKind.PARALLEL if block.chunks > 1 else ForKind.SERIAL
        rows = opaque("rows", run, buffers)
        return opaque("root", counted_loop(self._chunk, block.chunks, rows, kind))

    @property
    def _number(self) -> Expr:
        """The band's number in the image."""
        return self._first + self._at if self._block.bands.run > 1 else self._first

    def _band(self) -> Stmt:
        """The tiles of a band; layers that are split into blocks of channels share a loop."""
        first, last = self._new_tiles()
        steps, parts = self._block.steps, []
        for blocks, places in groupby(range(len(steps)), key=lambda at: steps[at].blocks):
            body = _in_turn([self._tiles(at, first[at], last[at]) for at in places])
            parts.append(counted_loop(self._channels, blocks, body) if blocks else body)
        return _in_turn(parts)

    def _ends_before(self) -> list[Expr]:
        """Of each layer the end of the tiles that the band above this one needs."""
        return self._block.course.ends(self._number - 1, tirx.min, tirx.max)

    def _new_tiles(self) -> tuple[list[Expr], list[Expr]]:
        """Of each layer the first tile that is not there yet, and the end of those of this band."""
        block, band = self._block, self._number
        ends = block.course.ends(band, tirx.min, tirx.max)
        starts = block.course.starts(band, tirx.min, tirx.max)
        if block.bands.run > 1:
            before = self._ends_before()
            begins = zip(starts, before, strict=True)
            starts = [tirx.Select(self._at == 0, start, end) for start, end in begins]
        return starts, ends

    def _tiles(self, at: int, first: Expr, end: Expr) -> Stmt:
        """A layer's tiles in one band. From the depthwise layer on there is one for each band."""
        if self._block.course.is_band(at):
            return self._pass(at, self._number)
        tile = tirx.Var("tile", INDEX)
        return counted_loop(tile, end - first, self._pass(at, first + tile))

    def _pass(self, at: int, tile: Expr) -> Stmt:
        step, chunk, reads = self._block.steps[at], self._chunks[at], self._layers[at].reads
        windows = {}
        if reads is not None:
            windows[chunk.params[reads]] = self._windows[at - 1]
        if at < len(self._windows):
            windows[chunk.params[-1]] = self._windows[at]
        split = (self._channels,) if step.blocks else ()
        computed = chunk.at((self._image, *split, tile), windows)
        if at not in self._block.taps:
            return computed
        # A tile that two runs compute is written by the one above, so that no element has two
        # writers.
        is_own = tirx.any(self._number == 0, tile >= self._ends_before()[at])
        return SeqStmt([computed, IfThenElse(is_own, self._copied_out(at, tile), None)])

    def _copied_out(self, at: int, tile: Expr) -> Stmt:
        """A tile of a tap from the rows that the group keeps to the layer's own output.

        # for part, row, element: output[part, first + row, element] = between[..]
        """
        step, window, output = self._block.steps[at], self._windows[at], self._chunks[at].params[-1]
        conv, lanes = step.conv, int(step.member.config.oc_bn)
        part, row, element = (tirx.Var(name, INDEX) for name in ("part", "row", "element"))
        block = self._channels if step.blocks else part
        column, lane = tirx.floordiv(element, lanes), tirx.floormod(element, lanes)
        index = [self._image, block, tile * step.rows + row, column, lane]
        value = window.buffer[tuple(window.place(index))]
        copied: Stmt = BufferStore(output, value, index)
        copied = counted_loop(row, step.rows, counted_loop(element, conv.out_width * lanes, copied))
        return copied if step.blocks else counted_loop(part, conv.out_channels // lanes, copied)

    def _window(self, at: int) -> Window:
        """The rows behind a layer in a flat buffer: those of a band alone, or a ring of a run's."""
        block, step = self._block, self._block.steps[at]
        blocks, rows, width, lanes = block.shape_behind(at)
        starts = block.course.starts(self._number, tirx.min, tirx.max)
        alone = block.bands.run == 1 or block.course.is_aligned(at)
        analyzer = Analyzer()

        def place(index: Sequence[Expr]) -> Sequence[Expr]:
            _, part, row, column, lane = (axis.astype(INDEX) for axis in index)
            # Not simplified, the difference of equal sums makes TVM divide by zero.
            first = analyzer.simplify(row - starts[at] * step.rows)
            slot = first if alone else tirx.floormod(row, rows)
            line = slot if blocks == 1 else part * rows + slot
            return [(line * width + column) * lanes + lane]

        size = blocks * rows * width * lanes
        name = "ring" if block.is_stack else "between"
        name = "expanded" if at < depthwise_of(block.members) else name
        return Window(tirx.decl_buffer([size], step.conv.types.output, name=name), place)


def _in_turn(parts: Sequence[Stmt]) -> Stmt:
    return sequence(parts)
