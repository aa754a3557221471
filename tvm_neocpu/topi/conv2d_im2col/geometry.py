"""What a config of the im2col template means for a convolution: pixels, chunks, columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import misfit_of_blocks
from tvm_neocpu.topi.cost.roofline import L2_SHARE

# Chunks of data read in place, over those that the config asks for.
MAX_MORE_CHUNKS = 1.5


@dataclass(frozen=True, order=True)
class Im2colConfig:
    """im2col and one matrix product, in NCHW[x]c: batch, rows and columns are one axis of pixels.

    ``reg_n`` pixels are held in registers; a chunk covers ``tiles`` such tiles, or a few less where
    data are read in place. The reduction is cut into ``parts`` of equal length, and a chunk walks
    all its tiles for one part before the next. A tile computes ``reg_o`` blocks of output channels
    side by side, on the last walk over the pixels those that are left: 13 blocks are 6 pairs and
    one. ``ic_bn``,
    ``oc_bn``, ``parallel_oc`` and ``oc_lanes`` are those of the direct template's ``ConvConfig``.
    """

    template: ClassVar[str] = "conv2d_NCHWc_im2col"

    ic_bn: int
    oc_bn: int
    reg_n: int
    tiles: int = 1
    parallel_oc: bool = False
    oc_lanes: int = 0
    parts: int = 1
    reg_o: int = 1

    @property
    def tile_channels(self) -> int:
        """Channels of a block in a register tile: ``oc_bn`` and what fills its last vector."""
        return self.oc_lanes or self.oc_bn


@dataclass(frozen=True)
class Im2colGeometry:
    """The extents that template, space and cost share.

    ``computed``: the data are computed as they are read (a prologue, a deformable convolution), so
    that they are not their own columns.
    """

    conv: ConvWorkload
    config: Im2colConfig
    computed: bool = False

    @property
    def pixels(self) -> int:
        """Output pixels of the whole batch."""
        return self.conv.batch * self.conv.out_height * self.conv.out_width

    @cached_property
    def equal_chunks(self) -> int | None:
        """How many equal chunks data are cut into that are read in place; ``None`` for a copy.

        A single chunk may end in a narrower tile. Several consist of whole tiles: the test that
        cuts a tile knows the end of the image only, so that a tile at the end of a chunk would
        store pixels of the next one, which another core computes. Up to :data:`MAX_MORE_CHUNKS`
        times the chunks that ``tiles`` asks for are taken.
        """
        if not self.conv.is_pointwise or self.config.ic_bn == 0 or self.computed:
            return None
        wanted = self._wanted_chunks
        for count in factors(self.pixels):
            whole = count == 1 or self.pixels // count % self.config.reg_n == 0
            if whole and wanted <= count <= MAX_MORE_CHUNKS * wanted:
                return count
        return None

    @property
    def _wanted_chunks(self) -> int:
        return math.ceil(math.ceil(self.pixels / self.config.reg_n) / self.config.tiles)

    @property
    def row_chunks(self) -> int:
        """Chunks of pixels; the last one may overhang where columns are copied."""
        return self.equal_chunks or self._wanted_chunks

    @property
    def chunk_pixels(self) -> int:
        if self.equal_chunks is not None:
            return self.pixels // self.equal_chunks
        return self.config.tiles * self.config.reg_n

    @property
    def chunk_tiles(self) -> int:
        """Register tiles of a chunk, the narrower one at its end included."""
        return math.ceil(self.chunk_pixels / self.config.reg_n)

    @property
    def last_tile(self) -> int:
        """Pixels of a chunk's last tile."""
        return self.chunk_pixels - (self.chunk_tiles - 1) * self.config.reg_n

    @property
    def computed_pixels(self) -> int:
        return self.row_chunks * self.chunk_pixels

    @property
    def overhangs(self) -> bool:
        return self.computed_pixels > self.pixels

    @property
    def chunks(self) -> int:
        """Trip count of the parallel loop."""
        return self.row_chunks * (self.walks if self.config.parallel_oc else 1)

    @property
    def ic_bn(self) -> int:
        """Channels of a block of the columns; one where the data is plain."""
        return self.config.ic_bn or 1

    @property
    def in_blocks(self) -> int:
        return self.conv.in_channels // self.ic_bn

    @property
    def out_blocks(self) -> int:
        return self.conv.out_channels // self.config.oc_bn

    @property
    def walks(self) -> int:
        """How often a chunk's columns are walked: once for ``reg_o`` blocks of output channels."""
        return math.ceil(self.out_blocks / self.config.reg_o)

    @property
    def last_blocks(self) -> int:
        """Blocks of output channels of the last walk."""
        return self.out_blocks - (self.walks - 1) * self.config.reg_o

    @property
    def reads_in_place(self) -> bool:
        """Whether the data is its own column matrix, and no chunk reads beyond its end."""
        return self.equal_chunks is not None

    @property
    def column_bytes(self) -> float:
        """Bytes of a chunk's columns."""
        item = item_bytes(self.conv.types.data)
        return float(item * self.conv.taps * self.chunk_pixels)

    @property
    def walked_bytes(self) -> float:
        """Bytes of columns that a core reads for a tile's output channels, before the next."""
        if self.config.parallel_oc:
            return self.column_bytes * self.row_chunks
        return self.column_bytes / self.config.parts

    @property
    def sum_bytes(self) -> float:
        """Bytes of a chunk's sums between two parts of the reduction."""
        item = item_bytes(self.conv.types.accumulator)
        blocks = 1 if self.config.parallel_oc else self.out_blocks
        held = blocks * self.chunk_pixels * self.config.tile_channels
        return float(item * held) if self.config.parts > 1 else 0.0

    def asks_for_pixels(self, cpu: Cpu) -> bool:
        """Whether tiles read their pixels from beyond L2 for each block of output channels.

        Requests for what lies in L2 only cost (Zen 3, 1024x14x14->512, a quarter of the image in a
        chunk: 2259 us, 2187 without; all of it: 2184, 2260 without).
        """
        channels = self.config.tile_channels * self.config.reg_o
        panel = item_bytes(self.conv.types.weight) * self.conv.taps * channels
        walked = self.walked_bytes + panel / self.config.parts
        return self.reads_in_place and walked > L2_SHARE * cpu.l2

    @property
    def passes_before(self) -> int:
        """Parallel loops before the product's: padding of plain data, columns of all chunks."""
        if self.reads_in_place:
            return 0
        return int(self.config.ic_bn == 0) + int(self.config.parallel_oc)

    @property
    def steps(self) -> int:
        """Blocks of channels of all taps that the reduction walks."""
        return self.in_blocks * self.conv.kernel[0] * self.conv.kernel[1]

    @property
    def part_steps(self) -> int:
        """Steps of one part of the reduction."""
        return self.steps // self.config.parts

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """The packed weight: (K/oc_bn, C/ic_bn * R * S, ic_bn, tile_channels).

        Several parts are an axis of their own where a core walks them: in front of the blocks of
        output channels, or behind these where each is a chunk.
        """
        blocks, parts = self.out_blocks, self.config.parts
        panel = self.part_steps, self.ic_bn, self.config.tile_channels
        if parts == 1:
            return blocks, *panel
        return (blocks, parts, *panel) if self.config.parallel_oc else (parts, blocks, *panel)


def misfit(conv: ConvWorkload, config: Im2colConfig) -> str | None:
    """Why a config from a log cannot compute the convolution; ``None`` where it can."""
    if min(config.reg_n, config.tiles, config.reg_o) < 1:
        return "its tiles are empty"
    wrong = misfit_of_blocks(conv, config.ic_bn, config.oc_bn, config.oc_lanes)
    if wrong is not None:
        return wrong
    steps = Im2colGeometry(conv, config).steps
    if not 1 <= config.parts <= steps:
        return "its reduction has no such parts"
    if steps % config.parts:
        return f"{config.parts} parts do not divide its reduction"
    if config.parallel_oc and config.reg_o > 1:
        return "its tiles of several blocks are not dealt out to cores"
    return None
