"""A group of layers as one function: the layers' own chunks, band by band (:mod:`.geometry`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import Buffer, BufferStore, For, ForKind, SeqStmt, Stmt

from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.topi.fused_block.chunks import Chunk, Window, cut_chunk
from tvm_neocpu.topi.fused_block.geometry import ITEM, FusedBlock, Member
from tvm_neocpu.topi.tir.memory_params import MIN_BYTES
from tvm_neocpu.topi.tir.order import LAST_MEMBER_REWRITES, MEMBER_REWRITES
from tvm_neocpu.topi.tir.rewrite_loops import opaque

# Marks a function that is scheduled already.
SCHEDULED = "neocpu.scheduled"
INDEX = "int64"


@dataclass(frozen=True)
class Layer:
    """A member's function as its template computed it, with its epilogue, not scheduled.

    ``reads`` is the position of the parameter that the layer before writes; ``None`` for the first.
    The last parameter is the output.
    """

    member: Member
    func: tirx.PrimFunc
    reads: int | None


def fused_function(
    block: FusedBlock, layers: Sequence[Layer], cpu: Cpu
) -> tirx.PrimFunc | None:
    """The scheduled function of all layers' operands, in order, and the last layer's output.

    ``None`` where a layer's schedule has more than one loop nest.
    """
    chunks = [_chunk_of(block, layer, layer is layers[-1], cpu) for layer in layers]
    if any(chunk is None for chunk in chunks):
        return None
    return _Writer(block, layers, [chunk for chunk in chunks if chunk is not None], cpu).function()


def _chunk_of(block: FusedBlock, layer: Layer, last: bool, cpu: Cpu) -> Chunk | None:
    """The chunk that a group asks a layer for: a tile row of a block, or a group's rows."""
    conv, config = block.conv, layer.member.config
    extents: tuple[int, ...] = (conv.batch, block.blocks, block.groups)
    if layer.member is block.expand:
        config = replace(config, oh_bn=1, parallel_oc=True)
        extents = (conv.batch, block.blocks, conv.height // block.tile_rows)
    elif layer.member is block.depthwise:
        config = replace(config, oh_bn=block.rows // config.reg_m)
    else:
        config = replace(config, oh_bn=block.rows // config.reg_m, parallel_oc=False)
        extents = (conv.batch, block.groups)
    rewrites = LAST_MEMBER_REWRITES if last else MEMBER_REWRITES
    return cut_chunk(layer.func, config, extents, rewrites, cpu)


def is_scheduled(func: tirx.PrimFunc) -> bool:
    """Whether the function came from :func:`fused_function`."""
    return bool(func.attrs) and SCHEDULED in func.attrs


class _Writer:
    """The loops around the chunks, and what lies between the layers."""

    def __init__(
        self, block: FusedBlock, layers: Sequence[Layer], chunks: Sequence[Chunk], cpu: Cpu
    ) -> None:
        self.block, self.layers, self.chunks = block, layers, chunks
        self.bands = block.bands(cpu.cores)
        self.band = tirx.Var("n_band", INDEX)
        self.step = tirx.Var("group", INDEX)
        self.first = self._first_group(self._of_image)
        self.group = self.first + self.step
        self.channels = tirx.Var("channels", INDEX)
        self.lanes = int(block.depthwise.config.oc_bn)
        copies = block.conv.batch * self.bands
        self.ring = _scratch("ring", copies * block.ring_elements)
        self.between = _scratch("between", copies * block.between_elements)

    def function(self) -> tirx.PrimFunc:
        """The function, marked as scheduled; its name and purity are the last layer's."""
        conv = self.block.conv
        count = self._first_group(self._of_image + 1) - self.first
        rows = self._of_group()
        per_band = _loop(self.step, count, rows)
        kind = ForKind.SERIAL if conv.batch * self.bands == 1 else ForKind.PARALLEL
        loop = _loop(self.band, conv.batch * self.bands, per_band, kind)
        used = [b for b, elements in self._scratches if elements]
        root = SBlockRealize([], True, SBlock([], [], [], "root", loop, None, used))
        func = tirx.PrimFunc([*self._operands, self.chunks[-1].params[-1]], root)
        attrs = dict(self.layers[-1].func.attrs or {})
        return func.with_attrs({**attrs, SCHEDULED: True})

    @property
    def _scratches(self) -> tuple[tuple[Buffer, int], ...]:
        block = self.block
        return (self.ring, block.ring_elements), (self.between, block.between_elements)

    @property
    def _operands(self) -> list[tirx.Var]:
        """All parameters but those that hand a feature map from layer to layer."""
        return [
            param
            for layer, chunk in zip(self.layers, self.chunks, strict=True)
            for at, param in enumerate(chunk.params[:-1])
            if at != layer.reads
        ]

    @property
    def _of_image(self) -> Expr:
        return tirx.floormod(self.band, self.bands)

    @property
    def _image(self) -> Expr:
        return tirx.floordiv(self.band, self.bands)

    def _first_group(self, band: Expr) -> Expr:
        return tirx.floordiv(band * self.block.groups, self.bands)

    def _of_group(self) -> Stmt:
        """# for channels: (keep rows; expand; depthwise); project."""
        block = self.block
        steps: list[Stmt] = []
        if block.expand is not None:
            steps += [*self._kept(), self._expanded()]
        steps.append(self._run(block.depthwise, self._image, self.channels, self.group))
        body: Stmt = SeqStmt(steps) if len(steps) > 1 else steps[0]
        inner = _loop(self.channels, block.blocks, body)
        if block.project is None:
            return inner
        projected = self._run(block.project, self._image, self.group)
        return SeqStmt([inner, projected])

    def _kept(self) -> list[Stmt]:
        """The rows that this group and the one before read move to the ring's beginning.

        Nothing to do in the first group of a band.
        """
        if self.block.groups == self.bands:
            return []
        before = self.group - 1
        base, source = self._base(self.group), self._base(before)
        count = tirx.max(self._top(before) - base, 0)
        count = tirx.if_then_else(self.step > 0, count, tirx.const(0, INDEX))
        row, vector, lane = (tirx.Var(name, INDEX) for name in ("row", "vector", "lane"))
        width = self.block.conv.width * self.lanes
        lanes = min(width & -width, 8)
        column = vector * lanes + lane
        at = self._ring_at(self.channels, row, 0, column)
        value = self.ring[(self._ring_at(self.channels, row + base - source, 0, column),)]
        copy = _loop(lane, lanes, BufferStore(self.ring, value, [at]), ForKind.VECTORIZED)
        return [opaque("keep", _loop(row, count, _loop(vector, width // lanes, copy)))]

    def _expanded(self) -> Stmt:
        """The rows of tiles that this group is the first to read in its band."""
        assert self.block.expand is not None
        tile = self.block.tile_rows
        fresh = tirx.max(self._top(self.group - 1), self._base(self.group))
        start = tirx.if_then_else(self.step > 0, fresh, self._base(self.group))
        start, end = tirx.floordiv(start, tile), tirx.floordiv(self._top(self.group), tile)
        row = tirx.Var("tile_row", INDEX)
        run = self._run(self.block.expand, self._image, self.channels, start + row)
        return _loop(row, end - start, run)

    def _base(self, group: Expr) -> Expr:
        """:meth:`FusedBlock.input_rows`, in the function's arithmetic."""
        conv, tile = self.block.conv, self.block.tile_rows
        first = group * (self.block.rows * conv.stride[0]) - conv.padding[0]
        return tirx.floordiv(tirx.max(first, tirx.const(0, INDEX)), tile) * tile

    def _top(self, group: Expr) -> Expr:
        conv, tile = self.block.conv, self.block.tile_rows
        reach = (self.block.rows - 1) * conv.stride[0] + conv.reach[0] - conv.padding[0]
        end = tirx.min(group * (self.block.rows * conv.stride[0]) + reach, conv.height)
        return tirx.floordiv(end + (tile - 1), tile) * tile

    def _run(self, member: Member, *index: Expr) -> Stmt:
        at = next(at for at, layer in enumerate(self.layers) if layer.member is member)
        chunk, layer = self.chunks[at], self.layers[at]
        windows: dict[tirx.Var, Window] = {}
        if layer.reads is not None:
            windows[chunk.params[layer.reads]] = self._window(self.layers[at - 1].member)
        if at + 1 < len(self.layers):
            windows[chunk.params[-1]] = self._window(member)
        return chunk.at(index, windows)

    def _window(self, writer: Member) -> Window:
        """Where a layer's output lies: the ring behind the expansion, else between the layers."""
        return self._ring_window if writer is self.block.expand else self._between_window

    @property
    def _ring_window(self) -> Window:
        def place(index: Sequence[Expr]) -> Sequence[Expr]:
            _, block, row, column, lane = (axis.astype(INDEX) for axis in index)
            return [self._ring_at(block, row - self._base(self.group), column, lane)]

        return Window(self.ring, place)

    def _ring_at(self, block: Expr, row: Expr, column: Expr | int, lane: Expr) -> Expr:
        geometry = self.block
        rows = (self.band * geometry.blocks + block) * geometry.ring_rows + row
        return (rows * geometry.conv.width + column) * self.lanes + lane

    @property
    def _between_window(self) -> Window:
        geometry = self.block

        def place(index: Sequence[Expr]) -> Sequence[Expr]:
            _, block, row, column, lane = (axis.astype(INDEX) for axis in index)
            rows = (self.band * geometry.blocks + block) * geometry.rows
            rows = rows + row - self.group * geometry.rows
            return [(rows * geometry.conv.out_width + column) * self.lanes + lane]

        return Window(self.between, place)


def _loop(var: tirx.Var, count: Expr | int, body: Stmt, kind: int = ForKind.SERIAL) -> For:
    extent = tirx.const(count, INDEX) if isinstance(count, int) else count
    return For(var, tirx.const(0, INDEX), extent, kind, body)


def _scratch(name: str, elements: int) -> Buffer:
    """A flat buffer large enough to be a workspace that the caller places (`memory_params`)."""
    return tirx.decl_buffer([max(elements, MIN_BYTES // ITEM)], "float32", name=name)
